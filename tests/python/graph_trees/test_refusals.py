"""What no graph is made of: section 14.7 of the fact sheet."""

import pytest
import torch

import kiln
from kiln import graph_device
from trees import graphs, partitions, recordings, skips, state


def test_a_graph_with_the_cpu_in_it(messages):
    def function(x, y):
        return x + 1, y + 2

    called = graphs(function, graph_partition=False)
    x, y = torch.rand(4, device="cuda"), torch.rand(4)
    for _ in range(2):
        one, two = called(x, y)
        assert torch.equal(one, x + 1)
        assert torch.equal(two, y + 2)
    assert skips() == 1
    (said,) = messages()
    assert said.startswith("skipping cudagraphs due to cpu device (")
    assert kiln.graph_tree_state() is None


def _reasons(caplog):
    """Why operators are in no graph."""
    said = [record.getMessage() for record in caplog.records]
    return [text.removeprefix(CUT).split()[:2] for text in said if text.startswith(CUT)]


def _warnings(caplog):
    return [r.getMessage() for r in caplog.records if (r.name, r.levelname) == ("kiln", "WARNING")]


CUT = "cudagraph partition: "


@pytest.mark.parametrize("partition", [True, False])
def test_incompatible_cudagraph_ops_nonzero(partition, caplog):
    def function(x):
        return (x + 1).sin(), x.nonzero() * 2

    called = graphs(function, graph_partition=partition)
    x = torch.tensor([1.0, 0.0, 2.0], device="cuda")
    with (
        caplog.at_level("DEBUG", logger="kiln"),
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
    ):
        for _ in range(3):
            torch.testing.assert_close(called(x), function(x))
    if partition:
        assert ["aten.nonzero.default,", "reason=unbacked"] in _reasons(caplog)
        assert skips() == 0
        assert recordings() >= 1
    else:
        said = _warnings(caplog)
        assert len(said) == skips() == 1
        due = "skipping cudagraphs due to disabling cudagraphs due to incompatible op aten.nonzero"
        assert said[0].startswith(due)


def test_skip_cudagraph_unsafe_ops(messages):
    @torch.library.custom_op(
        "graph_trees::unsafe", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,)
    )
    def unsafe(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    unsafe.register_fake(torch.empty_like)
    called = graphs(lambda x: unsafe(x * 2), graph_partition=False)
    x = torch.rand(4, device="cuda")
    for _ in range(3):
        torch.testing.assert_close(called(x), x * 2 + 1)
    assert skips() == 1
    (said,) = messages()
    assert "disabling cudagraphs due to incompatible op graph_trees.unsafe" in said


def test_graphs_are_off_on_the_cpu():
    called = graphs(lambda x: x + 1)
    x = torch.rand(4)
    for _ in range(3):
        assert torch.equal(called(x), x + 1)
    assert kiln.graph_tree_state() is None


@pytest.mark.parametrize("partition", [True, False])
def test_incompatible_cudagraph_ops_item(partition, caplog):
    def function(x):
        return x.sum() * x[0].item()

    called = graphs(function, graph_partition=partition)
    with (
        caplog.at_level("DEBUG", logger="kiln"),
        torch._dynamo.config.patch(capture_scalar_outputs=True),
    ):
        for number in (1, 2, 1):  # of a float PyTorch makes a tensor again
            x = torch.full((3,), number, device="cuda")
            assert called(x) == 3 * number * number
    said = _warnings(caplog)
    if partition:
        assert ["aten._local_scalar_dense.default,", "reason=unbacked"] in _reasons(caplog)
        assert (skips(), said) == (0, [])
    else:
        assert len(said) == skips() == 1
        assert "incompatible op aten._local_scalar_dense" in said[0]


@pytest.mark.parametrize("partition", [True, False])
def test_incompatible_cudagraph_ops_nonzero_graph_breaks(partition):
    def part(x, y):
        return (x + y).sin(), x.nonzero() * 2

    def function(x):
        one, first = part(x, x)
        torch._dynamo.graph_break()
        two, second = part(x, one)
        torch._dynamo.graph_break()
        three, third = part(x, two)
        return three, first, second, third

    called = graphs(function, graph_partition=partition)
    x = torch.tensor([1.0, 0.0, 2.0], device="cuda")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for _ in range(3):
            torch.testing.assert_close(called(x), function(x))
    if partition:  # of each of the three graphs what is before the operator, and what is behind it
        assert partitions() == 6
        assert skips() == 0
        assert recordings() >= 3
    else:
        assert skips() == 3


def test_multiple_devices_msg(messages):
    def function(x, y):
        return x + 1, y + 2

    called = graphs(function, graph_partition=False)
    called(torch.ones(10, device="cuda"), torch.ones(20))
    assert skips() == 1
    assert "skipping cudagraphs due to cpu device (" in messages()[0]
    assert "y + 2" in messages()[0]
    if torch.cuda.device_count() > 1:
        graphs(function)(torch.ones(10, device="cuda:0"), torch.ones(10, device="cuda:1"))
        assert skips() == 2
        assert "skipping cudagraphs due to multiple devices" in messages()[1]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU here")
def test_manager_per_device():
    called = graphs(lambda x: x + 1)
    x = torch.rand(4, device="cuda:1")
    for _ in range(3):
        assert torch.equal(called(x), x + 1)
    assert kiln.graph_tree_state(0) is None
    assert kiln.graph_tree_state(1)["recordings"] == 1


def test_a_capture_that_fails_leaves_the_next_ones():
    @torch.library.custom_op("graph_trees::asks_the_host", mutates_args=())
    def asks_the_host(x: torch.Tensor) -> torch.Tensor:
        return x * int(x.sum() > 0)  # which no capture can know

    asks_the_host.register_fake(torch.empty_like)
    x = torch.rand(4, device="cuda")
    before = graphs(lambda x: x + 1)
    for _ in range(3):
        before(x)
    asks = graphs(lambda x: asks_the_host(x) + 2)
    asks(x)
    torch.compiler.cudagraph_mark_step_begin()
    kept = before(x)
    with pytest.raises(RuntimeError):
        asks(x)
    assert torch.equal(kept, x + 1)
    after = graphs(lambda x: x * 3)
    for _ in range(3):
        assert torch.equal(after(x), x * 3)
        assert torch.equal(before(x), x + 1)
    assert state()["recordings"] == 3
    if not torch.__version__.startswith("2.12."):  # which cannot end it
        assert graph_device._unended_captures == []
