"""Forward and backward, generations: section 14.3 of the fact sheet."""

import copy
import gc
import warnings

import pytest
import torch
from torch._dynamo.utils import counters as dynamo_counters

import kiln
from kiln import graph_trees
from trees import graphs, live_blocks, recordings, reset_without_trees, skips, state


def _trained(model, x, steps, compiled):
    model = copy.deepcopy(model)
    called = graphs(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = called(x + step).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


def test_training_gives_what_eager_mode_gives():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    ).cuda()
    x = torch.rand(8, 16, device="cuda")
    losses, parameters = _trained(model, x, 6, True)
    assert recordings() == 2
    assert state()["forwards_pending"] == 0
    assert state()["replays"] >= 6
    expected_losses, expected = _trained(model, x, 6, False)
    for got, due in zip(losses + parameters, expected_losses + expected):
        torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-5)


def test_forward_backward():
    called = graphs(lambda x: torch.sin(torch.relu(x)))
    x = torch.rand(20, 20, device="cuda", requires_grad=True)
    for _ in range(4):
        x.grad = None
        out = called(x)
        out.sum().backward()
        torch.testing.assert_close(x.grad, torch.cos(torch.relu(x)) * (x > 0))
        del out
    nodes = state()["nodes"]
    assert [node["depth"] for node in nodes] == [0, 1]
    assert nodes[1]["dead_before"] == []
    # The result, which the caller holds, and x for the backward, which is dead behind that.
    assert len(nodes[0]["rules"]) == 2
    assert nodes[1]["dead_after"] == [(0, 1)]


def test_forward_generation():
    def function(x):
        return x * x * x

    def other(x):
        return x + 12

    first, second = graphs(function), graphs(other)
    x = torch.rand(4, 4, device="cuda", requires_grad=True)
    out = first(x)
    out2 = second(out)
    assert live_blocks() == 2
    assert state()["forwards_pending"]
    out2.sum().backward()
    assert not state()["forwards_pending"]
    del out, out2
    for _ in range(3):
        x.grad = None
        out2 = second(first(x))
        out2.sum().backward()
        torch.testing.assert_close(x.grad, 3 * x * x)
        del out2


def test_warn_on_pending_backward():
    called = graphs(lambda x: x * x * x)
    x = torch.rand(4, 4, device="cuda", requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        kept = [called(x) for _ in range(4)]
    texts = [str(warning.message) for warning in seen]
    assert sum("Unable to hit fast path of CUDAGraphs because of pending" in t for t in texts) == 1
    assert recordings() == 0
    del kept


def test_mark_step():
    called = graphs(lambda x: x * x * x)
    x = torch.rand(4, 4, device="cuda", requires_grad=True)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        called(x)
    assert recordings() != 0


def test_a_backward_outside_of_graphs_ends_the_waiting():
    @torch.library.custom_op("graph_trees::on_host", mutates_args=())
    def on_host(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    on_host.register_fake(torch.empty_like)

    def setup(ctx, inputs, output):
        pass

    def backward(ctx, gradient):
        return gradient.cpu().cuda()

    on_host.register_autograd(backward, setup_context=setup)
    called = graphs(lambda x: on_host(x * x), graph_partition=False)
    x = torch.rand(4, device="cuda", requires_grad=True)
    for _ in range(3):
        x.grad = None
        called(x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * x)
    assert not state()["forwards_pending"]
    assert skips() == 1


def test_gradients_of_two_calls_of_one_iteration_are_added():
    linear = torch.nn.Linear(8, 8, device="cuda")
    called = graphs(linear)
    x = torch.rand(4, 8, device="cuda")
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        linear.zero_grad(set_to_none=True)
        called(x).sum().backward()
        called(x).sum().backward()
        torch.testing.assert_close(linear.bias.grad, torch.full((8,), 8.0, device="cuda"))
    assert state()["replays"] >= 2
    linear.zero_grad(set_to_none=True)


def test_gradients_of_calls_that_are_iterations_each_are_added():
    linear = torch.nn.Linear(8, 8, device="cuda")
    called = graphs(linear)
    x = torch.rand(4, 8, device="cuda")
    for step in range(6):
        linear.zero_grad(set_to_none=True)
        for part in range(3):
            called(x * (step + part)).sum().backward()
        due = (x * (3 * step + 3)).sum(0).expand(8, 8)
        torch.testing.assert_close(linear.weight.grad, due)
        torch.testing.assert_close(linear.bias.grad, torch.full((8,), 12.0, device="cuda"))
    assert recordings() == 2
    linear.zero_grad(set_to_none=True)


def test_a_model_that_is_dropped_leaves_no_tree():
    model = torch.nn.Linear(8, 8, device="cuda")
    called = graphs(model)
    x = torch.rand(4, 8, device="cuda")
    for _ in range(4):
        model.zero_grad(set_to_none=True)
        called(x).sum().backward()
    model.zero_grad(set_to_none=True)
    reset_without_trees()
    del called, model
    gc.collect()
    assert kiln.graph_tree_state() is None


def test_cached_forward_backward():
    def function(x):
        return torch.sin(torch.relu(x)) * 2.75  # no other test's

    x = torch.rand(20, 20, device="cuda", requires_grad=True)
    seen = []
    for turn in range(2):
        torch._dynamo.reset()
        dynamo_counters.clear()
        called = graphs(function)
        for _ in range(3):
            x.grad = None
            out = called(x)
            out.sum().backward()
            seen.append((out.detach().clone(), x.grad.clone()))
            del out
        nodes = state()["nodes"]
        assert [node["depth"] for node in nodes] == [0, 1]
        assert dynamo_counters["aot_autograd"]["autograd_cache_hit"] == turn
    for out, grad in seen[1:]:
        assert torch.equal(out, seen[0][0])
        assert torch.equal(grad, seen[0][1])


@pytest.mark.parametrize("partition", [True, False])
def test_forward_backward_not_called(partition):
    def cubes(x, y):
        cubed = x * x * x
        torch._dynamo.graph_break()
        return cubed, y * y * y

    called = graphs(cubes, graph_partition=partition)
    for _ in range(3):
        x, y = (torch.rand(20, 20, device="cuda", requires_grad=True) for _ in range(2))
        cubed, other = called(x, y)
        cubed.sum().backward()  # the second graph's backward never runs
        torch.testing.assert_close(x.grad, 3 * x * x)
        del cubed, other
    assert not state()["forwards_pending"]
    assert recordings() == 3


def test_dynamic_backward():
    called = torch.compile(
        lambda x: x * x.size(0) + x.sin(),
        backend="kiln",
        dynamic=True,
        options={"cudagraphs": True, "slow_path_cudagraph_asserts": True},
    )
    for size in (4, 6, 4, 6):
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.rand(size, size, device="cuda", requires_grad=True)
            out = called(x)
            out.sum().backward()
            torch.testing.assert_close(out, x * size + x.sin())
            torch.testing.assert_close(x.grad, size + x.cos())
            del out
    assert recordings() == 4


def test_compiled_autograd_static_input_params():
    model = torch.nn.Linear(10, 10, bias=False, device="cuda")
    x = torch.rand(10, 10, device="cuda")
    with torch._dynamo.config.patch(compiled_autograd=True):
        backward = graphs(lambda loss: loss.backward())
        for _ in range(5):
            backward(model(x).sum())
            torch.testing.assert_close(model.weight.grad, x.sum(0).expand(10, 10))
            model.weight.grad = None
    # The gradient of the loss and the batch; the weight stays where it is.
    assert kiln.counters["cudagraph_recorded_non_static_inputs"] == 2


def test_forward_with_skipped_cudagraphed_backward():
    @torch.library.custom_op("graph_trees::is_on_host", mutates_args=())
    def is_on_host(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    is_on_host.register_fake(torch.empty_like)
    is_on_host.register_autograd(
        lambda ctx, gradient: gradient.cpu().cuda(), setup_context=lambda ctx, inputs, output: None
    )
    called = graphs(lambda x: is_on_host(x * x), graph_partition=False)
    x = torch.rand(4, device="cuda", requires_grad=True)
    for _ in range(3):
        x.grad = None
        called(x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * x)
    assert recordings() == 1
    assert not state()["forwards_pending"]


def test_graph_partition_forward_with_skipped_cudagraphed_backward(monkeypatch):
    called = graphs(lambda x: x * x * x)
    x = torch.rand(20, 20, device="cuda", requires_grad=True)
    for _ in range(3):
        x.grad = None
        out = called(x)
        with monkeypatch.context() as patched:
            patched.setattr(graph_trees, "_overlaps", lambda tensor: True)
            out.sum().backward()
        torch.testing.assert_close(x.grad, 3 * x * x)
        del out
    assert recordings() == 1
    assert not state()["forwards_pending"]
    assert skips() == 1
