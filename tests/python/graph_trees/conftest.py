"""Each test leaves no tree, no live block and no private pool."""

import gc

import pytest
import torch

import kiln
from trees import live_blocks, logger, private_segments


def pytest_collection_modifyitems(items):
    for item in items:
        if "graph_trees" in item.path.parts and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no GPU here"))


@pytest.fixture(autouse=True)
def nothing_is_left():
    if not torch.cuda.is_available():
        yield
        return
    torch._dynamo.reset()
    kiln.counters.clear()
    yield
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.synchronize()
    assert kiln.graph_tree_state() is None
    assert live_blocks() == 0
    torch.cuda.empty_cache()
    assert private_segments() == []


@pytest.fixture
def messages(caplog):
    """What graphs say, in order."""
    caplog.set_level("WARNING", logger=logger.name)

    def said():
        return [record.getMessage() for record in caplog.records if record.name == logger.name]

    return said
