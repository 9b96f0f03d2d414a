"""Graphs that are cut around what cannot be captured: section 14.8 of the fact sheet."""

import logging

import pytest
import torch

import kiln
from trees import assert_thrice, graphs, partitions, recordings, skips, state, unsafe_operator


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
        y = x * 2
        return y.sin() + (y.detach().cpu() + 1).cuda()

    x = torch.rand(8, device="cuda", requires_grad=True)
    called = graphs(function)
    for _ in range(4):
        x.grad = None
        called(x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * (2 * x).cos())
    assert recordings() == partitions() == 3  # two of the forward, one of the backward
    assert skips() == 0
    assert not state()["forwards_pending"]
    x.grad = None


def test_a_backward_in_parts():
    def function(x):
        y = (x.detach() * 2).sin()
        return (y.cpu() + 1).cuda() * x

    x = torch.rand(8, device="cuda", requires_grad=True)
    called = graphs(function)
    for _ in range(4):
        x.grad = None
        called(x).sum().backward()
        found = x.grad
        (due,) = torch.autograd.grad(function(x).sum(), x)
        torch.testing.assert_close(found, due)
    # Two of the forward, two of the backward: that computes y and its way over the CPU again, from x.
    assert recordings() == partitions() == 4
    assert skips() == 0
    assert not state()["forwards_pending"]
    x.grad = None


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
    torch._dynamo.reset()
    assert_thrice(graphs(function, graph_partition=False), function, x, mask)
    assert skips() > 0


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

    called = torch.compile(function, backend="kiln", dynamic=True, options={"cudagraphs": True})
    for size in (2, 3, 4):
        assert_thrice(called, function, torch.rand(size, 3, device="cuda"))
    assert recordings() == 3
    assert skips() == 0


def test_graph_partition_custom_rule():
    halved = unsafe_operator("halved_by_rule")

    def function(x):
        return halved(x + 1) * 3

    x = torch.rand(16, device="cuda")
    name = "graph_trees::halved_by_rule"
    rules = ((), 1), ((name,), 2), ((), 1), ((f"{name}.default",), 2)
    for (names, count), (next_names, _) in zip(rules, rules[1:] + rules[:1]):
        torch._dynamo.reset()
        kiln.counters.clear()
        with kiln.config.patch(custom_should_partition_ops=names):
            called = graphs(function)
            assert_thrice(called, function, x)
        assert partitions() == count
        # What is compiled stays so, whatever the rule is later.
        with (
            kiln.config.patch(custom_should_partition_ops=next_names),
            torch.compiler.set_stance("fail_on_recompile"),
        ):
            assert_thrice(called, function, x)
        assert partitions() == count


def test_graph_partition_custom_op_mutation():
    @torch.library.custom_op(
        "graph_trees::adds_one", mutates_args=["x"], tags=(torch.Tag.cudagraph_unsafe,)
    )
    def adds_one(x: torch.Tensor) -> None:
        x.add_(1)

    def function(x):
        y = x * 2
        adds_one(y)
        return y.sin()

    x = torch.rand(16, device="cuda")
    assert_thrice(graphs(function), function, x)
    assert recordings() == 2
    assert skips() == 0


def test_custom_op_mutation_with_cudagraph_unsafe():
    @torch.library.custom_op(
        "graph_trees::adds_one_unsafe", mutates_args=["x"], tags=(torch.Tag.cudagraph_unsafe,)
    )
    def adds_one_unsafe(x: torch.Tensor) -> None:
        x.add_(1)

    def function(x):
        y = x * 2
        adds_one_unsafe(y)
        return y.sin()

    x = torch.rand(16, device="cuda")
    assert_thrice(graphs(function), function, x, times=5)
    assert partitions() == 2
    assert skips() == 0


def test_graph_partition_condition_op():
    def function(choose, x):
        y = x + 1
        return torch.cond(choose, lambda y: y.sin(), lambda y: y.cos(), (y,)) * 3

    called = graphs(function)
    x = torch.rand(16, device="cuda")
    for choose in (True, False, True, False):
        choose = torch.tensor(choose, device="cuda")
        assert_thrice(called, function, choose, x)
    assert partitions() == 2
    assert skips() == 0
    assert recordings() >= 1


def test_cudagraph_unsafe_unbacked_ops():
    @torch.library.custom_op("graph_trees::positives", mutates_args=())
    def positives(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    @positives.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    def function(x):
        return positives(x + 1) * 2

    x = torch.randn(16, device="cuda")
    name = "graph_trees::positives"
    for names, count in (((), 2), ((name,), 1), ((f"{name}.default",), 1)):
        torch._dynamo.reset()
        kiln.counters.clear()
        called = graphs(function, cudagraph_unsafe_unbacked_ops=names)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            assert_thrice(called, function, x)
        assert partitions() == count
        assert skips() == 0


def test_explain_has_what_cuts_a_graph():
    def function(x):
        y = (x + 1).cpu() * 2
        return y.cuda() + x

    (graph,) = kiln.explain(graphs(function), torch.rand(4, device="cuda")).graphs
    assert graph.device_graphs == 2
    assert graph.cuts and all("cpu" in cut or "DeviceCopy" in cut for cut in graph.cuts)
    assert graph.skip is None


def test_graph_partition_log_message(caplog):
    def function(x):
        return (x + 1).cpu()

    with caplog.at_level(logging.DEBUG, logger="kiln"):
        x = torch.rand(4, device="cuda")
        assert_thrice(graphs(function), function, x)
    said = [record.getMessage() for record in caplog.records]
    assert "Created 2 graph partitions: 1 cudagraphable, 1 non-cudagraphable" in said
    assert sum("reason=" in text for text in said) == 1
    assert any("reason=DeviceCopy ops" in text for text in said)
    assert said.count("Recording function=partition_0, mode=INFERENCE, cuda_graph_id=0,") == 1
    assert recordings() == 1


def test_graph_partition_multiple_devices_msg():
    def function(x, y):
        return x + 1, y + 2

    x, y = torch.rand(4, device="cuda"), torch.rand(4)
    called = graphs(function)
    assert_thrice(called, function, x, y, rtol=0, atol=0)
    assert skips() == 0
    assert recordings() == 1


def test_graph_partition_buffer_reuse():
    def function(x):
        y = x @ x
        z = (y.cpu() + 1).cuda()
        w = z @ y
        return (w.cpu() + 1).cuda() @ x

    x = torch.rand(32, 32, device="cuda") / 32
    assert_thrice(graphs(function), function, x, times=6)
    assert recordings() == partitions() == 3
    assert skips() == 0


def test_index_put_boolean_mutation_across_partitions():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(8, device="cuda"))

        def forward(self, x, mask, values):
            self.total.add_(x)
            y = self.total * 2
            y[mask] = values  # as many as the mask says, which the host finds out
            return y + self.total

    module, plain = Module(), Module()
    called = graphs(module)
    x, values = torch.rand(8, device="cuda"), torch.rand(4, device="cuda")
    mask = torch.arange(8, device="cuda") % 2 == 0
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(called(x, mask, values), plain(x, mask, values))
            torch.testing.assert_close(module.total, plain.total)
    assert partitions() >= 2
    assert recordings() >= 2
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
        if make is graphs:
            assert recordings() == 2
    for one, other in zip(*seen, strict=True):
        assert torch.equal(one, other)


def test_graph_partition_simple():
    def function(x, y):
        x1, y1 = x + 1, y - 1
        return x1 @ y1, (x1.cpu() @ y1.cpu()).cuda() + 1, x1.sin()

    x, y = (torch.rand(8, 8, device="cuda") for _ in range(2))
    called = graphs(function)
    assert_thrice(called, function, x, y)
    assert recordings() >= 1


def test_graph_partition_foreach_op():
    def function(a, b, c, d):
        sums = torch._foreach_add([a, b], [c, d])
        moved = torch._foreach_mul([s.cpu() for s in sums], 2.0)
        return [m.cuda() + a for m in moved]

    inputs = [torch.rand(16, device="cuda") for _ in range(4)]
    called = graphs(function)
    assert_thrice(called, function, *inputs)
    assert recordings() >= 1


def test_graph_partition_view_fallback():
    def function(x):
        y = (x + 1).view(2, -1).t()
        z = (y.cpu() * 2).cuda().t()
        return z.reshape(-1) + x, y

    called = graphs(function)
    x = torch.rand(16, device="cuda")
    assert_thrice(called, function, x)
    assert recordings() >= 1


def test_a_forward_in_parts_whose_backward_is_not_called():
    def function(x):
        y = x.sin() * 2
        return (y.cpu() + 1).cuda() * x

    called = graphs(function)
    x = torch.rand(8, device="cuda", requires_grad=True)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        torch.testing.assert_close(called(x), function(x))
    assert recordings() == 2


def test_graph_partition_custom_op_mutation_late_free():
    @torch.library.custom_op("graph_trees::adds_two", mutates_args=["x"])
    def adds_two(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y * 2)

    adds_two.register_fake(lambda x, y: None)

    def function(x, y):
        z = x * 3
        adds_two(z, y)
        w = z.sin()
        adds_two(w, z)
        return w + z

    x, y = (torch.rand(16, device="cuda") for _ in range(2))
    assert_thrice(graphs(function), function, x, y)
    assert recordings() >= 1


@pytest.mark.parametrize(
    ("kind", "count"), [("no_dependency", 2), ("dependency1", 2), ("a_kernel_between", 3)]
)
def test_graph_partition_reorder_custom_op(kind, count):
    halved = unsafe_operator(f"halved_with_{kind}", (torch.Tag.cudagraph_unsafe,))

    def function(x, y):
        x1, y1 = x + 1, y - 1
        one = halved(x1)
        z1 = x1 @ y1  # which is nothing of the operators'
        of = {"no_dependency": y1, "dependency1": one, "a_kernel_between": one + y1}[kind]
        return one @ halved(of), z1

    x, y = (torch.rand(8, 8, device="cuda") for _ in range(2))
    called = graphs(function)
    assert_thrice(called, function, x, y)
    assert recordings() == count
    assert skips() == 0


def test_graph_partition_gc():
    import gc

    from trees import reset_without_trees

    called = graphs(lambda x: (x.cpu() + 1).cuda() * 2)
    x = torch.rand(8, device="cuda")
    for _ in range(3):
        called(x)
    assert recordings() == 1
    reset_without_trees()
    del called
    gc.collect()
    assert kiln.graph_tree_state() is None


def test_graph_partition_reduce_overhead_mode_effectiveness():
    def function(x):
        return x.cpu() + 1

    x = torch.rand(8, device="cuda")
    torch.compile(function, backend="kiln")(x)
    assert kiln.graph_tree_state() is None
    called = graphs(lambda x: x + 1)
    for _ in range(3):
        called(torch.rand(8))
    assert kiln.graph_tree_state() is None


def test_graph_partition_with_memory_plan_reuse():
    class Layer(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.inner = torch.nn.Linear(16, 16)
            self.outer = torch.nn.Linear(16, 16)
            self.operator = unsafe_operator(name, (torch.Tag.cudagraph_unsafe,))

        def forward(self, x):
            return self.outer(self.operator(self.inner(x)).relu()) + x

    model = torch.nn.Sequential(Layer("attends_first"), Layer("attends_second")).cuda().eval()
    x = torch.rand(4, 16, device="cuda")
    with torch.no_grad():
        assert_thrice(graphs(model), model, x)
    assert recordings() == partitions() == 3
    assert skips() == 0
