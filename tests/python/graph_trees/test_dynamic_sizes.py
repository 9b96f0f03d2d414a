"""Sizes that change: section 14.6 of the fact sheet."""

import pytest
import torch

import kiln
from trees import recordings, skips


def _graphs(function, **options):
    checked = {"cudagraphs": True, "slow_path_cudagraph_asserts": True, **options}
    return torch.compile(function, backend="kiln", dynamic=True, options=checked)


def _run(called, sizes, times=3):
    for size in sizes:
        x = torch.rand(size, device="cuda")
        for _ in range(times):
            torch.testing.assert_close(called(x), x * 3 + 1)


def test_each_size_has_a_graph():
    called = _graphs(lambda x: x * 3 + 1)
    _run(called, (4, 5, 6, 4))
    assert recordings() == 3


def test_skip_symbolic(messages):
    called = _graphs(
        lambda x: x * 3 + 1, cudagraph_skip_dynamic_graphs=True, graph_partition=False
    )
    _run(called, (4, 5))
    assert skips() == 1
    (said,) = messages()
    assert said.startswith("skipping cudagraphs due to graph with symbolic shapes inputs")


def test_graph_partition_skip_symbolic(caplog):
    """Parts with such sizes are no graphs, for a reason that names the line, and none is skipped."""
    called = _graphs(lambda x: x * 3 + 1, cudagraph_skip_dynamic_graphs=True)
    with caplog.at_level("DEBUG", logger="kiln"):
        _run(called, (4, 5))
    assert skips() == 0
    assert kiln.graph_tree_state() is None
    said = [record.getMessage() for record in caplog.records]
    assert any("reason=dynamic shape ops" in text and "x * 3 + 1" in text for text in said)


def test_warn_once_if_dynamic_shape_limit_reached(messages):
    called = _graphs(lambda x: x * 3 + 1, cudagraph_dynamic_shape_warn_limit=1)
    _run(called, range(4, 10), 1)
    (said,) = messages()
    assert "We have observed 2 distinct sizes." in said


@pytest.mark.parametrize(
    ("sizes", "others"),
    [
        ((2, 5, 7), (3, 4, 6)),
        (((2, 3), (4, 5), (6, 2), (7, 3)), ((2, 5), (3, 4), (6, 3))),
        (((2, 3, 4), (4, 4, 3), (3, 4, 4), (4, 2, 3)), ((2, 3, 3), (4, 4, 4))),
    ],
)
def test_cudagraph_capture_sizes(sizes, others):
    called = _graphs(lambda x: x * 3 + 1, cudagraph_capture_sizes=sizes)
    _run(called, sizes + others)
    assert recordings() == len(sizes)
    assert skips() == 0


def test_dynamic_warmup():
    ran = []

    @torch.library.custom_op("graph_trees::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        ran.append(x.shape[0])
        return x + 1

    counted.register_fake(torch.empty_like)
    called = _graphs(lambda x: counted(x * 3))
    _run(called, (4, 5, 6), 4)
    # A warm-up and a capture each.
    assert sorted(ran) == [4, 4, 5, 5, 6, 6]


def test_skip_if_dynamic_shape_limit_reached(messages):
    called = _graphs(lambda x: x * 3 + 1, cudagraph_dynamic_shape_warn_limit=8)
    _run(called, range(4, 12), 1)
    assert messages() == []
    _run(called, range(12, 23), 1)  # 19 in all
    (said,) = messages()
    assert "We have observed 9 distinct sizes." in said
