"""Parameters and other inputs that keep their addresses: section 14.5 of the fact sheet."""

import pytest
import torch

import kiln
from trees import graphs, recordings, skips, state


def test_parameters_are_read_where_they_are():
    linear = torch.nn.Linear(8, 8, device="cuda")
    called = graphs(linear)
    x = torch.rand(4, 8, device="cuda")
    with torch.no_grad():
        for _ in range(5):
            linear.weight.add_(1)
            torch.testing.assert_close(called(x), linear(x))
    assert recordings() == 1
    assert state()["recorded_copied_inputs"] == 1


def test_rerecord_if_static_input_address_changed():
    linear = torch.nn.Linear(8, 8, device="cuda")
    called = graphs(linear)
    x = torch.rand(4, 8, device="cuda")
    with torch.no_grad():
        for number in range(6):
            if number == 3:
                linear.weight.data = torch.rand(8, 8, device="cuda")
            torch.testing.assert_close(called(x), linear(x))
    assert recordings() == 2
    assert skips() == 0


def test_no_rerecord_with_mark_static_address():
    called = graphs(lambda x, y: x * y)
    static = torch.rand(4, device="cuda")
    torch._dynamo.mark_static_address(static)
    for _ in range(4):
        x = torch.rand(4, device="cuda", requires_grad=True)
        y = called(x, static)
        torch.testing.assert_close(y, x * static)
        y.sum().backward()
        assert torch.equal(x.grad, static)
        del y
    assert recordings() == 2  # a forward and a backward
    assert static.data_ptr() in state()["nodes"][0]["addresses"]
    assert state()["nodes"][0]["addresses"].count(0) == 1


def test_unaligned_static_parameter():
    whole = torch.rand(17, device="cuda")
    weight = torch.nn.Parameter(whole[1:])

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return self.weight * x

    module = Module()
    called = graphs(module)
    with torch.no_grad():
        for _ in range(4):
            x = torch.rand(16, device="cuda")
            torch.testing.assert_close(called(x), module(x))
    assert state()["nodes"][0]["addresses"] == [0, 0]


class _Scaled(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), float(factor), device="cuda"))

    def forward(self, x):
        return x * self.weight


def _train(run, modules, wanted):
    """Forward and backward, three times each module and then each again: what was recorded for it is
    found. ``wanted``: whether the input's gradient is."""
    called = graphs(run)
    x = torch.rand(3, 4, device="cuda", requires_grad=wanted)
    for module in [module for module in modules for _ in range(3)] + modules * 2:
        leaves = [*module.parameters(), *([x] if wanted else [])]
        due = torch.autograd.grad(run(module, x).square().sum(), leaves)
        y = called(module, x)
        torch.testing.assert_close(y, run(module, x))
        y.square().sum().backward()
        for leaf, gradient in zip(leaves, due, strict=True):
            torch.testing.assert_close(leaf.grad, gradient)
            leaf.grad = None
        del y
    assert skips() == 0


def test_multi_dispatch_single_compile_param_inputs():
    """One graph, two parameters: each one's addresses have recordings, of forward and backward."""
    _train(lambda module, x: x * module.weight, [_Scaled(2), _Scaled(3)], False)
    assert recordings() == 4


def test_multi_dispatch_child_node():
    def run(module, x):
        y = x + 1
        torch._dynamo.graph_break()
        return module(y)

    _train(run, [_Scaled(2), _Scaled(3)], False)
    assert recordings() == 5


def test_multi_dispatch_parent_node():
    """What comes after a graph that was recorded anew is recorded below it; the backward of the sum
    is nothing to replay."""

    def run(module, x):
        y = module(x)
        torch._dynamo.graph_break()
        return y + 1

    _train(run, [_Scaled(2), _Scaled(3)], False)
    assert recordings() == 6


def _moving(called, module, x, times):
    """Calls a module whose parameter is elsewhere each time."""
    held = []
    with torch.no_grad():
        for number in range(times):
            module.weight.data = torch.full((4,), float(number), device="cuda")
            held.append(module.weight.data)
            assert torch.equal(called(x), x * number)


def _moves(times):
    """Trains a module whose parameter moves so often, when all has been recorded where it was."""
    module = _Scaled(1)
    called = graphs(module, cudagraph_unexpected_rerecord_limit=0)
    held = []

    def step():
        x = torch.rand(4, device="cuda", requires_grad=True)
        called(x).sum().backward()
        assert torch.equal(module.weight.grad, x)
        assert torch.equal(x.grad, module.weight)
        module.weight.grad = None

    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        for _ in range(3):
            step()
        for _ in range(times):
            held.append(module.weight.data)
            module.weight.data = torch.rand(4, device="cuda")
            step()


_EXCEEDS = (
    "skipping cudagraph due to function %d exceeding max re-recording limit (=0) on cudagraph "
    "node None due to static input data pointer changed."
)


def test_fallback_to_eager_if_recompiling_too_many_times(messages):
    """Forward and backward at the first address; at the second one the backward, which begins."""
    _moves(1)
    assert recordings() == 3
    assert skips() == 1
    (said,) = messages()
    assert said.startswith(_EXCEEDS % 0)


def test_fallback_to_eager_if_recompiling_too_many_times_warn_only_once(messages):
    _moves(6)
    assert recordings() == 3
    assert skips() == 2
    forward, backward = messages()
    assert forward.startswith(_EXCEEDS % 0)
    assert backward.startswith(_EXCEEDS % 1)


def test_a_limit_of_one_allows_one_more_recording(messages):
    module = _Scaled(1)
    called = graphs(module, cudagraph_unexpected_rerecord_limit=1)
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        _moving(called, module, torch.rand(4, device="cuda"), 6)
    assert recordings() == 2
    assert skips() == 1
    (said,) = messages()
    assert said.startswith(
        "skipping cudagraph due to function 0 exceeding max re-recording limit (=1) on cudagraph "
        "node None due to static input data pointer changed."
    )


def test_fallback_to_eager_due_to_cudagraph_managed_tensor(messages):
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        limit = {"cudagraph_unexpected_rerecord_limit": 0}
        first, second = graphs(lambda x: x + 1, **limit), graphs(lambda x: x * 2, **limit)

        def run(handed_on):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.rand(2, 3, device="cuda")
            y = first(x)
            assert torch.equal(second(handed_on(y)), (x + 1) * 2)

        for _ in range(3):
            run(lambda y: y)
        for _ in range(6):
            run(torch.clone)
    assert recordings() == 2
    assert skips() == 1
    (said,) = messages()
    assert said.startswith(
        "skipping cudagraph due to function 1 exceeding max re-recording limit (=0) on cudagraph "
        "node 0 due to cudagraph managed tensor data pointer changed."
    )


def test_not_fallback_to_eager_if_have_not_recompiling_too_many_times(messages):
    module = _Scaled(1)
    called = graphs(module, cudagraph_unexpected_rerecord_limit=1)
    _moving(called, module, torch.rand(4, device="cuda"), 5)
    assert recordings() == 4
    assert skips() == 0
    assert messages() == []


def test_rerecording_logs_reason(caplog):
    module = _Scaled(1)
    called = graphs(module)
    with caplog.at_level("DEBUG", logger="kiln"):
        _moving(called, module, torch.rand(4, device="cuda"), 4)
    assert any("Re-recording" in record.getMessage() for record in caplog.records)
    assert any(kind == "re-record" and "Re-recording" in text for kind, _, text in state()["notes"])


@pytest.mark.parametrize("mode", ["trees", "no_cudagraphs"])
def test_unaligned_static_input(mode):
    called = graphs(lambda x, y: x * y, cudagraphs=mode == "trees")
    whole = torch.rand(17, device="cuda")
    static = whole[1:]
    torch._dynamo.mark_static_address(static)
    for _ in range(4):
        x = torch.rand(16, device="cuda")
        assert torch.equal(called(x, static), x * static)
    assert (state() and recordings()) == (1 if mode == "trees" else None)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        called(x, static)
    assert "aten::clone" not in [event.name for event in seen.events()]


class _WithBuffer(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.register_buffer("weight", torch.full((4,), float(factor), device="cuda"))

    def forward(self, x):
        return x * self.weight


def _batch_norm(seed):
    torch.manual_seed(seed)
    module = torch.nn.BatchNorm1d(4, device="cuda").eval()
    module.running_mean.normal_()
    return module


@pytest.mark.parametrize(
    "make",
    [_Scaled, _WithBuffer, _batch_norm, lambda n: torch.nn.Linear(4, 4, device="cuda")],
    ids=["custom_module", "custom_module_buffer", "builtin_module_buffers", "builtin_module"],
)
def test_multi_dispatch_single_compile(make):
    _train(lambda module, x: module(x), [make(2), make(3)], True)
    assert recordings() == 4


def test_unstable_ptr():
    """Where parameters are no inputs of graphs and none may be written, as section 4 has it."""
    module = _Scaled(1)
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        called = graphs(module, cudagraph_support_input_mutation=False)
        x = torch.rand(4, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                called(x)
            was = module.weight.data
            module.weight.data = torch.rand(4, device="cuda")
            with pytest.raises(kiln.KilnError, match="static input data pointer changed") as error:
                called(x)
            said = str(error.value)
            assert f"data pointer changed from {was.data_ptr()} to {module.weight.data_ptr()}." in said
            module.weight.data = was
            torch.testing.assert_close(called(x), module(x))
    assert recordings() == 1


def test_static_inputs_address_mutation_log():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(4, device="cuda"))
            self.shift = torch.nn.Parameter(torch.rand(4, device="cuda"))

        def forward(self, x):
            return x * self.weight + self.shift

    module = Module()
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        called = graphs(module, cudagraph_support_input_mutation=False)
        x = torch.rand(4, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                called(x)
            was = [module.weight.data, module.shift.data]
            module.weight.data, module.shift.data = (tensor.clone() for tensor in was)
            with pytest.raises(kiln.KilnError, match="static input data pointer changed") as error:
                called(x)
    said = str(error.value)
    for tensor, moved in zip(was, (module.weight, module.shift)):
        assert f"data pointer changed from {tensor.data_ptr()} to {moved.data_ptr()}. input stack" in said
    assert said.count("input name: ") == 2
