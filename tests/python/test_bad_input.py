"""What a program may do wrong, or only oddly: it goes on, or gets one clear error."""

import signal
import threading
import time
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import kiln
from kiln import _native, service


def run(fn, *args, **options):
    return torch.compile(fn, backend="kiln", **options)(*args)


def test_a_graph_break_makes_two_graphs():
    def fn(x):
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return torch.exp(-y) * 2

    x = torch.randn(8)
    torch.testing.assert_close(run(fn, x), fn(x))
    assert len(kiln.explain(fn, x).graphs) == 2


def test_sparse_tensors_run_in_pytorch():
    def fn(a, x):
        return torch.sparse.mm(a, x) + 1

    a, x = torch.eye(4).to_sparse(), torch.randn(4, 3)
    torch.testing.assert_close(run(fn, a, x), fn(a, x))


def test_compressed_sparse_rows_run_in_pytorch():
    def fn(a, x):
        return (a @ x) * 2

    a, x = torch.eye(3).to_sparse_csr(), torch.randn(3, 2)
    torch.testing.assert_close(run(fn, a, x), fn(a, x))


def test_a_layout_whose_memory_nobody_can_see_runs_in_pytorch_after_a_warning(monkeypatch):
    def fn(a, y):
        return torch.relu(a.to_dense()) * y

    x, y = torch.randn(2, 3), torch.tensor(2.0, requires_grad=True)
    hidden, why = x.to_mkldnn(), "input l_a_ has layout _mkldnn, expected strided: to_dense()"
    with pytest.raises(kiln.KilnError, match=f"UNSUPPORTED_OP: graph dynamo_.*: {why}"):
        run(fn, hidden, y)
    with pytest.warns(UserWarning, match=why):
        (graph,) = kiln.explain(fn, hidden, y).graphs
    assert graph.segments == 0 and graph.refusal.startswith(why)

    monkeypatch.setenv("KILN_STRICT", "0")
    torch._dynamo.reset()
    kiln.counters.clear()
    called = torch.compile(fn, backend="kiln")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            got = called(hidden, y)
            torch.testing.assert_close(got, torch.relu(x) * 2)
        torch.testing.assert_close(torch.autograd.grad(got.sum(), y)[0], torch.relu(x).sum())
    (told,) = [str(one.message) for one in seen if "kiln" in str(one.message)]
    assert told.startswith("kiln: graph dynamo_") and f"runs in eager mode: {why}" in told
    assert (kiln.counters["eager_graphs"], kiln.counters["compiles"]) == (1, 0)
    torch.testing.assert_close(called(x, y), torch.relu(x) * 2)  # a dense one is compiled
    assert kiln.counters["compiles"] + kiln.counters["cache_hit"] > 0


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_what_an_attention_drops_is_a_probability_or_pytorchs_own_error(by_name, training, monkeypatch):
    def fn(q, k, v):
        if by_name:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=2.0)
        return F.scaled_dot_product_attention(q, k, v, None, 2.0)

    args = [torch.randn(2, 3, 9, 16, requires_grad=training) for _ in range(3)]
    with pytest.raises(kiln.KilnError, match="dropout_p 2.0 of an attention, expected a number from 0 to 1"):
        run(fn, *args)
    monkeypatch.setenv("KILN_STRICT", "0")
    torch._dynamo.reset()
    for called in (fn, torch.compile(fn, backend="kiln")):
        with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got 2"):
            called(*args)


def test_complex_inputs_run_in_pytorch():
    x = torch.randn(5, dtype=torch.complex64)
    torch.testing.assert_close(run(lambda a: a * a.conj(), x), x * x.conj())


def test_views_that_conjugate_and_negate_are_noticed():
    x = torch.randn(6, dtype=torch.complex64)
    negated = x.conj().imag
    assert negated.is_neg()
    torch.testing.assert_close(run(lambda a: a * 2 + 1, negated), negated * 2 + 1)


def test_work_on_two_devices_in_one_graph_is_done_on_each():
    # What is on the graph's device is compiled, the rest, what comes of it too, is PyTorch's.
    def fn(x, m):
        far = torch.relu(m) * 3 + x[0, 0]
        return x.cos() * 2 + 1, far, x.sum() * far.shape[0]

    x, m = torch.randn(3, 4), torch.empty(5, device="meta")
    got, due = run(fn, x, m), fn(x, m)
    torch.testing.assert_close((got[0], got[2]), (due[0], due[2]))
    assert (got[1].device, got[1].shape, got[1].dtype) == (m.device, (5,), m.dtype)
    told = kiln.explain(fn, x, m)
    assert sum(graph.segments for graph in told.graphs) > 0
    assert sorted(told.host_kernels.values()) == [
        f"aten.{name}: device meta" for name in ("add.Tensor", "mul.Tensor", "relu.default")
    ]


def test_a_tensor_that_moves_to_another_device_does_so():
    def fn(x):
        return (x * 2 + 1).to("meta").t() * 3

    got = run(fn, torch.randn(3, 4))
    assert (got.device.type, got.shape, got.stride()) == ("meta", (4, 3), (1, 4))
    moves = kiln.explain(fn, torch.randn(3, 4)).host_kernels.values()
    assert any("_to_copy" in why or "device_put" in why for why in moves), moves


def test_gradients_come_back_over_two_devices():
    x, m = torch.randn(3, requires_grad=True), torch.empty(3, device="meta", requires_grad=True)
    here, there = run(lambda x, m: (x.sin() * 2, m.sin() * 2), x, m)
    torch.autograd.backward((here, there), (torch.ones(3), torch.empty(3, device="meta")))
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())
    assert m.grad.device.type == "meta" and m.grad.shape == (3,)


def test_one_operator_on_two_devices_is_pytorchs_error():
    with pytest.raises(Exception, match="meta"):
        run(lambda x, m: x + m, torch.ones(3), torch.ones(3, device="meta"))


def test_a_huge_constant_is_no_part_of_what_is_sent(monkeypatch):
    sent = []
    compile_ = _native.compile
    monkeypatch.setattr(
        _native, "compile", lambda *args: sent.append(len(args[1])) or compile_(*args)
    )
    table = torch.arange(4_000_000.0).reshape(2000, 2000)  # 16 MB
    ones = torch.ones(2000, 2000)
    torch.testing.assert_close(run(lambda x: x + table.t() * 2, ones), ones + table.t() * 2)
    assert sent and max(sent) < 10_000


def test_a_large_buffer_is_read_in_each_call_and_never_sent(monkeypatch):
    class Table(torch.nn.Module):
        def __init__(self, seed):
            super().__init__()
            self.register_buffer("table", torch.full((512, 1024), float(seed)))  # 2 MB

        def forward(self, i):
            return self.table[i] * 2

    sent = []
    compile_ = _native.compile
    monkeypatch.setattr(
        _native, "compile", lambda *args: sent.append(args[1]) or compile_(*args)
    )
    model, i = Table(3), torch.tensor([1, 5])
    called = torch.compile(model, backend="kiln")
    assert called(i).unique().tolist() == [6.0]
    model.table.add_(1)
    assert called(i).unique().tolist() == [8.0]
    # Another's buffer is another input of the same graph.
    torch._dynamo.reset()
    kiln.counters.clear()
    assert torch.compile(Table(7), backend="kiln")(i).unique().tolist() == [14.0]
    assert (kiln.counters["compiles"], kiln.counters["cache_hit"]) == (0, 1)
    assert len(sent) == 2 and max(map(len, sent)) < 10_000


def test_an_empty_tensor_and_a_scalar_tensor_are_served():
    def fn(x):
        return x * 2 + 1, x.sum()

    for x in (torch.randn(0, 4), torch.tensor(3.0)):
        torch.testing.assert_close(run(fn, x), fn(x))


def test_a_closed_over_python_object_is_followed():
    class Settings:
        scale = 3

    settings = Settings()
    called = torch.compile(lambda x: x * settings.scale, backend="kiln")
    x = torch.ones(2)
    assert called(x).tolist() == [3.0, 3.0]
    settings.scale = 5
    assert called(x).tolist() == [5.0, 5.0]


class Doubled(torch.Tensor):
    """A subclass that does nothing of its own."""


def test_a_subclass_gives_what_eager_mode_gives():
    x = torch.randn(4).as_subclass(Doubled)
    got = run(lambda a: torch.relu(a) + 1, x)
    torch.testing.assert_close(
        got.as_subclass(torch.Tensor), torch.relu(x.as_subclass(torch.Tensor)) + 1
    )


def test_a_subclass_of_two_tensors_is_taken_apart():
    x = TwoTensor(torch.randn(4), torch.randn(4))
    got = run(lambda a: torch.relu(a) * 2 + 1, x)
    assert isinstance(got, TwoTensor)
    torch.testing.assert_close(got.a, torch.relu(x.a) * 2 + 1)
    torch.testing.assert_close(got.b, torch.relu(x.b) * 2 + 1)


def test_inputs_that_overlap_are_read_as_in_eager_mode():
    x = torch.arange(10.0).as_strided((4, 4), (2, 1))
    torch.testing.assert_close(run(lambda a: a * 2 + a.sum(0), x), x * 2 + x.sum(0))


def test_a_model_with_two_hundred_parameters_is_served():
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(100)])
    x = torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(run(model, x), model(x))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("trains", [True, False], ids=["training", "inference"])
def test_an_interrupt_while_a_compile_is_waited_for_leaves_the_next_call_good(
    trains, cached, monkeypatch
):
    begun, held = threading.Event(), threading.Event()
    compile_ = _native.compile

    def slow(*args):
        begun.set()
        held.wait()
        return compile_(*args)

    monkeypatch.setattr(_native, "compile", slow)
    called = torch.compile(lambda x: x * 7 + 2, backend="kiln")
    x = torch.ones(2, requires_grad=trains)

    def interrupt():
        begun.wait()
        _interrupt_main()

    # With AOTAutograd's cache compiles are waited for in Dynamo, to be kept; without, in the call.
    kiln.counters.clear()
    before = kiln.recompile_reasons()
    with torch._functorch.config.patch(enable_autograd_cache=cached):
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            called(x)
        held.set()
        for _ in range(2):
            result = called(x)
            assert result.tolist() == [9.0, 9.0]
            if trains:
                assert torch.autograd.grad(result.sum(), x)[0].tolist() == [7.0, 7.0]
    # No guard had failed: the trace that was interrupted began again.
    assert kiln.counters["recompiles"] == 0 and kiln.recompile_reasons() == before


def _interrupt_main():
    # Until the main thread waits: an interrupt in the middle of Dynamo is Dynamo's to handle.
    main = threading.main_thread().ident
    import sys

    while "finished" not in _names(sys._current_frames()[main]):
        time.sleep(0.01)
    signal.pthread_kill(main, signal.SIGINT)


def _names(frame):
    return [frame.f_code.co_name for frame in _frames(frame)]


def _frames(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


@pytest.mark.parametrize("item", [None, "text", [torch.ones(2)], 1.5])
def test_the_extension_refuses_what_is_no_tensor(item):
    service.load_library()
    session = service.session_of(torch.device("cpu"))
    graphs = []
    with pytest.MonkeyPatch.context() as patch:
        original = _native.compile
        patch.setattr(
            _native, "compile", lambda *args: graphs.append(original(*args)) or graphs[-1]
        )
        with torch._functorch.config.patch(enable_autograd_cache=False):
            run(lambda x: x + 1, torch.ones(2))
    assert session is not None
    with pytest.raises(TypeError):
        _native.run(graphs[0], [item], 0)
    with pytest.raises(kiln.KilnError, match="GUARD_FAILED"):
        _native.run(graphs[0], [torch.ones(2, dtype=torch.float64)], 0)
    with pytest.raises((kiln.KilnError, TypeError)):
        _native.run(graphs[0], [], 0)


def test_a_trace_that_cannot_be_written_costs_no_compile(tmp_path):
    (tmp_path / "file").touch()
    folder, x = str(tmp_path / "file" / "traces"), torch.randn(5)
    with pytest.warns(UserWarning, match=f"trace: '{folder}': no trace is written: Not a directory"):
        with kiln.config.patch(trace=folder):
            torch.testing.assert_close(torch.compile(torch.cos, backend="kiln")(x), x.cos())
            assert not kiln.explain(torch.cos, x).host_kernels


def test_a_hook_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="register_launch_hooks: exit: found 6, expected a function"):
        kiln.register_launch_hooks(None, 6)


def test_bandwidth_of_what_is_not_compiled_says_so():
    table = kiln.bandwidth(torch.sin, torch.randn(5))
    assert not table.kernels and "no kernel of Kiln's ran" in str(table)
