"""What PyTorch's annotations make of a program's graphs: which would be device graphs on a GPU."""

import pytest
import torch

import kiln
from annotated_programs import ROWS, needs_annotations, run
from kiln import graph_choice
from kiln.graph_choice import Chooser


@pytest.fixture
def chosen(monkeypatch):
    """The kinds of the graphs that would be."""
    kinds = []
    monkeypatch.setattr(graph_choice, "device_of", lambda graph: torch.device("cuda"))
    monkeypatch.setattr(Chooser, "_choose", lambda self, module, kind: kinds.append(kind))
    torch._dynamo.reset()
    kiln.counters.clear()
    with torch._functorch.config.patch(enable_autograd_cache=False):
        yield kinds


@needs_annotations
@pytest.mark.parametrize("row", ROWS)
def test_an_annotation_is_heard(row, chosen):
    run(ROWS[row], "cpu")
    assert len(chosen) == ROWS[row].graphs
    if ROWS[row].enabled and ROWS[row].trains and ROWS[row].graphs:
        assert chosen == ["forward"]
        assert kiln.counters["cudagraph_skips"] == 1
