"""Graphs that are cut around what cannot be captured: section 14.8 of the fact sheet."""

import logging

import pytest
import torch

import kiln
from trees import graphs, recordings, skips, state


def partitions():
    return kiln.counters["cudagraph_partitions"]


def assert_thrice(called, function, *inputs, times=4):
    for _ in range(times):
        torch.testing.assert_close(called(*inputs), function(*inputs))


def test_graph_partition():
    def function(x, y):
        x1, y1 = x + 1, y + 1
        y_cpu = y1.cpu() + 1
        return x @ y, x1 + y1 + y_cpu.cuda()

    called = graphs(function)
    x, y = (torch.rand(2, 2, device="cuda") for _ in range(2))
    assert_thrice(called, function, x, y)
    assert recordings() == partitions() == 2
    assert skips() == 0


def test_graph_partition_forward_backward():
    def function(x):
        y = (x * 2).sin()
        return (y.cpu() + 1).cuda() * x

    x = torch.rand(8, device="cuda", requires_grad=True)
    called = graphs(function)
    for _ in range(4):
        x.grad = None
        called(x).sum().backward()
        found = x.grad
        (due,) = torch.autograd.grad(function(x).sum(), x)
        torch.testing.assert_close(found, due)
    assert skips() == 0
    assert not state()["forwards_pending"]
    x.grad = None


def test_graph_partition_item():
    def function(x):
        y = x.sum()
        return x * y.item() + 1

    called = graphs(function)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for scale in (1.0, 2.0, 3.0, 4.0):
            x = torch.full((4,), scale, device="cuda")
            torch.testing.assert_close(called(x), function(x))
    assert skips() == 0


def test_graph_partition_unbacked_symint():
    def function(x, y):
        places = x.nonzero()
        return (places * 2).sum() + y.sin(), y.cos() * 2

    called = graphs(function)
    y = torch.rand(4, device="cuda")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for count in (2, 3, 2, 3, 2, 3):
            x = torch.zeros(8, device="cuda")
            x[:count] = 1
            for got, due in zip(called(x, y), function(x, y), strict=True):
                torch.testing.assert_close(got, due)
    assert partitions() >= 1
    assert skips() == 0


def test_index_put_boolean_fallback_partitions_cudagraphs():
    def function(x, mask):
        y = x * 2
        y[mask] = 0.0
        return y + 1

    called = graphs(function)
    x = torch.rand(8, device="cuda")
    mask = x > 0.5
    assert_thrice(called, function, x, mask)
    assert partitions() >= 1
    assert skips() == 0


def unsafe_operator(name, tags=()):
    operator = torch.library.custom_op(f"graph_trees::{name}", mutates_args=(), tags=tags)

    @operator
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    halved.register_fake(torch.empty_like)
    return halved


def test_graph_partition_custom_op():
    halved = unsafe_operator("halved", (torch.Tag.cudagraph_unsafe,))

    def function(x):
        x = halved(x + 1) * 2
        return halved(x) + 3

    x = torch.rand(16, device="cuda")
    assert_thrice(graphs(function), function, x)
    assert recordings() == 3
    assert skips() == 0


def test_graph_partition_custom_op_no_split():
    halved = unsafe_operator("halved_inside")

    def function(x):
        return halved(halved(x + 1) * 2) + 3

    x = torch.rand(16, device="cuda")
    assert_thrice(graphs(function), function, x)
    assert recordings() == 1


def test_graph_partition_custom_rule():
    halved = unsafe_operator("halved_by_rule")

    def function(x):
        return halved(x + 1) * 3

    x = torch.rand(16, device="cuda")
    due = {(): 1, ("graph_trees::halved_by_rule",): 2, ("graph_trees::halved_by_rule.default",): 2}
    for names, count in due.items():
        torch._dynamo.reset()
        kiln.counters.clear()
        called = graphs(function, custom_should_partition_ops=names)
        assert_thrice(called, function, x)
        assert partitions() == count


def test_graph_partition_custom_op_mutation():
    @torch.library.custom_op("graph_trees::adds_one", mutates_args=["x"])
    def adds_one(x: torch.Tensor) -> None:
        x.add_(1)

    def function(x):
        y = x * 2
        adds_one(y)
        return y.sin()

    x = torch.rand(16, device="cuda")
    assert_thrice(graphs(function), function, x)
    assert skips() == 0


def test_graph_partition_log_message(caplog):
    def function(x):
        y = x + 1
        return (y.cpu() * 2).cuda() + x

    with caplog.at_level(logging.DEBUG, logger="kiln"):
        x = torch.rand(4, device="cuda")
        assert_thrice(graphs(function), function, x)
    said = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("Created 3 graph partitions: 2 cudagraphable, 1 non") for text in said)
    assert any("reason=cpu ops" in text for text in said)


def test_graph_partition_multiple_devices_msg():
    def function(x, y):
        return x + 1, y + 2

    x, y = torch.rand(4, device="cuda"), torch.rand(4)
    called = graphs(function)
    for _ in range(4):
        for got, due in zip(called(x, y), function(x, y), strict=True):
            assert torch.equal(got, due)
    assert skips() == 0
    assert recordings() == 1


@pytest.mark.parametrize("skipped", [False, True])
def test_graph_partition_dynamic_shapes(skipped):
    def function(x):
        return (x + 1).cpu().cuda() * x.size(0)

    options = {"cudagraphs": True, "cudagraph_skip_dynamic_graphs": skipped}
    called = torch.compile(function, backend="kiln", dynamic=True, options=options)
    for size in (4, 6, 4, 6):
        assert_thrice(called, function, torch.rand(size, device="cuda"))
    assert skips() == 0
    assert (recordings() if state() else 0) == (0 if skipped else 4)


def test_graph_partition_reorder_cpu_and_gpu():
    def function(x, y):
        x1 = x + 1
        y1 = y.sin()
        x2 = torch.linalg.inv(x1.view(4, 4) + 9 * torch.eye(4, device="cuda"))
        y2 = y1 * 2
        return x2, y2

    called = graphs(function)
    x, y = torch.rand(16, device="cuda"), torch.rand(4)
    for _ in range(4):
        for got, due in zip(called(x, y), function(x, y), strict=True):
            torch.testing.assert_close(got, due)
    assert recordings() == 1


def test_graph_partition_buffer_reuse():
    def function(x):
        y = x @ x
        z = (y.cpu() + 1).cuda()
        w = z @ y
        return (w.cpu() + 1).cuda() @ x

    x = torch.rand(32, 32, device="cuda") / 32
    assert_thrice(graphs(function), function, x, times=6)
    assert skips() == 0


def test_index_put_boolean_mutation_across_partitions():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(8, device="cuda"))

        def forward(self, x, mask):
            self.total.add_(x)
            y = self.total * 2
            y[mask] = 0.0
            return y + self.total

    module, plain = Module(), Module()
    called = graphs(module)
    x = torch.rand(8, device="cuda")
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(called(x, x > 0.5), plain(x, x > 0.5))
            torch.testing.assert_close(module.total, plain.total)
    assert skips() == 0


def test_numbers_of_a_graph_in_parts_repeat():
    def function(x):
        y = torch.nn.functional.dropout(x, 0.5)
        return torch.nn.functional.dropout((y.cpu() + 1).cuda(), 0.5)

    x = torch.rand(4096, device="cuda")
    seen = []
    for make in (graphs, lambda f: torch.compile(f, backend="kiln")):
        torch._dynamo.reset()
        called = make(function)
        torch.manual_seed(4)
        seen.append([called(x).clone() for _ in range(5)])
    for one, other in zip(*seen, strict=True):
        assert torch.equal(one, other)


def _copies(called, *inputs):
    """How often a call copies to the GPU, once it is replayed."""
    for _ in range(3):
        called(*inputs)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        called(*inputs)
        torch.cuda.synchronize()
    return sum(event.count for event in seen.key_averages() if "Memcpy HtoD" in event.key)


def test_graph_partition_cpu_scalar():
    def function(x, scale):
        return (x * scale).sin() + scale

    x = torch.rand(8, device="cuda")
    called = graphs(function)
    for value in (1.0, 2.0, 3.0, 4.0):
        scale = torch.tensor(value)
        torch.testing.assert_close(called(x, scale), function(x, scale))
    assert recordings() == 1
    assert _copies(called, x, torch.tensor(5.0)) == 1
    assert skips() == 0


def test_graph_partition_cpu_scalar_mutation():
    def function(x, count):
        y = x + count
        count.add_(1)
        return y

    x = torch.rand(8, device="cuda")
    called = graphs(function)
    count, plain = torch.tensor(1.0), torch.tensor(1.0)
    for _ in range(4):
        torch.testing.assert_close(called(x, count), function(x, plain))
        assert count == plain
    assert recordings() == 1
