"""Operators that Kiln does not compile run in PyTorch, in their places, and are told of."""

import copy
import gc
import uuid
import weakref

import pytest
import torch
from torch import nn

import kiln
from kiln.compiled_graph import CompiledGraph


def assert_compiles_right(fn, *args):
    torch.testing.assert_close(
        torch.compile(fn, backend="kiln")(*args), fn(*args), rtol=1e-4, atol=1e-4
    )


def test_an_unknown_operator_runs_between_two_segments():
    def fn(x):
        return torch.linalg.inv(torch.relu(x) + torch.eye(8) * 9) * 2 + 1

    x = torch.randn(8, 8)
    assert_compiles_right(fn, x)
    told = kiln.explain(fn, x)
    assert len(told.graphs) == 1
    assert told.graphs[0].segments == 2
    # From torch 2.14 on the look at its error is in the graph too.
    whys = list(told.host_kernels.values())
    assert "aten.linalg_inv_ex.default" in whys[0]
    assert all("aten._linalg_check_errors.default" in why for why in whys[1:]), whys


def test_operators_on_unrelated_paths_share_their_segments():
    def fn(x, y):
        a, b = torch.relu(x) + 1, torch.relu(y) + 2
        return torch.linalg.det(a) + 1, torch.linalg.det(b) + 2

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    assert_compiles_right(fn, x, y)
    assert kiln.explain(fn, x, y).graphs[0].segments == 2


def test_a_view_of_an_input_that_is_a_result_too_does_not_cut_the_graph():
    def fn(x):
        rows = x.view(4, 16)
        left, right = rows.split(8, 1)
        return left, rows.t(), torch.relu(left + 1) * right, rows.sum(0)

    x = torch.randn(64)
    assert_compiles_right(fn, x)
    left, turned, *_ = torch.compile(fn, backend="kiln")(x)
    x[0] = 7.0
    assert left[0, 0] == 7.0 and turned[0, 0] == 7.0
    told = kiln.explain(fn, x)
    assert told.graphs[0].segments == 1
    assert not told.host_kernels


def test_a_view_that_the_backward_needs_does_not_cut_the_forward():
    table = nn.Embedding(10, 4)

    def fn(ids):
        rows = ids.view(-1, 3)
        return table(rows).relu().sum(1)

    ids = torch.randint(0, 10, (2, 6))
    compiled = torch.compile(fn, backend="kiln", dynamic=True)
    gradients = []
    for call in (compiled, fn):
        call(ids).square().sum().backward()
        gradients.append(table.weight.grad)
        table.weight.grad = None
    torch.testing.assert_close(*gradients)
    assert all(graph.segments == 1 for graph in kiln.explain(fn, ids).graphs)


def test_complex_numbers_run_in_pytorch():
    def fn(x):
        return torch.fft.fft(x * 2).abs() + 1

    x = torch.randn(16)
    assert_compiles_right(fn, x)
    assert any(
        "complex64" in why or "fft" in why for why in kiln.explain(fn, x).host_kernels.values()
    )


def test_gradients_go_through_host_kernels():
    x = torch.randn(5, 5, requires_grad=True)
    eye = torch.eye(5) * 5

    def fn(x):
        return torch.linalg.inv(torch.tanh(x) + eye).square().sum()

    (due,) = torch.autograd.grad(fn(x), x)
    (got,) = torch.autograd.grad(torch.compile(fn, backend="kiln")(x), x)
    torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-4)


def test_a_custom_operator_that_mutates_does_so():
    @torch.library.custom_op("kiln_tests::add_one", mutates_args={"x"})
    def add_one(x: torch.Tensor) -> None:
        x.add_(1)

    def fn(x):
        y = x * 2
        add_one(y)
        return y + x

    assert_compiles_right(fn, torch.randn(6))


def test_a_graph_of_host_kernels_alone_runs():
    assert_compiles_right(torch.linalg.inv, torch.randn(4, 4) + torch.eye(4) * 5)


@pytest.mark.parametrize("refused", ["one", "all"])
def test_what_was_refused_keeps_nothing_of_its_caller(refused, monkeypatch):
    operator = torch.library.custom_op(f"host_kernels::new_{uuid.uuid4().hex}", mutates_args=())

    @operator
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    halved.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: halved(x) + 1, backend="kiln")
    if refused == "all":
        monkeypatch.setattr(CompiledGraph, "_compile", _refused)
        monkeypatch.setenv("KILN_STRICT", "0")

    def call():
        held = type("Held", (), {})()
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 1.5))
        return weakref.ref(held)

    held = call()
    gc.collect()
    assert held() is None


def _refused(graph, exported):
    raise LookupError("of the test")


def test_a_large_constant_travels_as_an_input():
    table = torch.randn(600, 600)  # over 1 MiB

    class Lookup(nn.Module):
        def forward(self, i):
            return table[i] * 2

    assert_compiles_right(Lookup(), torch.tensor([3, 5]))


def test_an_operator_that_a_pass_refuses_runs_in_pytorch_too():
    def fn(x):
        return torch.nn.functional.adaptive_avg_pool2d(x * 2, 5) + 1

    x = torch.randn(1, 2, 7, 7)
    assert_compiles_right(fn, x)
    (why,) = kiln.explain(fn, x).host_kernels.values()
    assert "windows of several sizes" in why


def test_all_unknown_operators_of_a_graph_are_told_of_in_one_refusal(monkeypatch):
    def fn(x):
        y = torch.linalg.inv(x + torch.eye(4) * 9) * 2
        return torch.linalg.det(y), torch.linalg.eigvalsh(y), torch.linalg.inv(y + 1)

    asked, ask = [], CompiledGraph._ask

    def counted(graph):
        asked.append(graph.name)
        ask(graph)

    monkeypatch.setattr(CompiledGraph, "_ask", counted)
    x = torch.randn(4, 4)
    assert_compiles_right(fn, x)
    assert len(asked) == 2
    hosts = kiln.explain(fn, x).host_kernels
    assert sum("aten.linalg_inv_ex.default is not known" in why for why in hosts.values()) == 2


def test_a_host_kernel_whose_result_is_laid_out_otherwise_than_promised_is_laid_out_anew():
    @torch.library.custom_op("kiln_tests::turned", mutates_args=())
    def turned(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).t().contiguous().t()

    @turned.register_fake
    def _(x):
        return torch.empty_like(x)

    def fn(x):
        return turned(x + 1) * 3

    assert_compiles_right(fn, torch.randn(4, 6))


def test_a_size_that_is_found_in_data_is_there_before_a_kernel_that_needs_it():
    def head(x, n):
        size = n.item()
        torch._check(size >= 0)
        torch._check(size <= x.shape[0])
        return (x * 2).narrow(0, 0, size) + 1

    called = torch.compile(head, backend="kiln", fullgraph=True)
    x = torch.randn(20, 3)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for n in map(torch.tensor, (7, 3, 20)):
            torch.testing.assert_close(called(x, n), head(x, n))


def inverse_of_transposed(x):
    y = torch.linalg.inv(x.t())
    x.add_(1)
    return y


def singular_values_of_columns(x):
    y = torch.linalg.svdvals(x.view(2, 8)[:, ::2])
    x.zero_()
    return y


def halves(x):
    upper, lower = x.split(2)
    y = torch.linalg.svdvals(upper.t()), torch.linalg.svdvals(lower)
    upper.zero_()
    return y


def spectrum_of_pairs(x):
    y = torch.fft.fft(torch.view_as_complex(x.view(8, 2))).abs()
    x.mul_(2)
    return y


def transposed_after_a_host_kernel(x):
    turned = x.t()
    y = turned * torch.linalg.det(x)
    x.add_(1)
    return y


def rows_after_a_host_kernel(x):
    row = x.view(16)
    scale = torch.linalg.det(x * 2)
    y = torch.relu(row) * scale
    x.copy_(x.t() * scale)
    return y, x + 1


@pytest.mark.parametrize(
    "fn",
    [
        inverse_of_transposed,
        singular_values_of_columns,
        halves,
        spectrum_of_pairs,
        transposed_after_a_host_kernel,
        rows_after_a_host_kernel,
    ],
    ids=lambda fn: fn.__name__,
)
def test_views_of_an_input_are_read_before_the_input_is_written(fn):
    x = torch.randn(4, 4) + 4 * torch.eye(4)
    written = x.clone()
    due, got = fn(x), torch.compile(fn, backend="kiln")(written)
    torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(written, x, rtol=1e-4, atol=1e-4)
    assert kiln.explain(fn, x).host_kernels


def test_inputs_that_share_memory_are_read_before_it_is_written():
    def fn(x, part):
        y = torch.linalg.inv(part.t())
        x.add_(1)
        return y * 2, part + 1

    x = torch.randn(5, 4) + 4 * torch.eye(5, 4)
    written = x.clone()
    due, got = fn(x, x[:4]), torch.compile(fn, backend="kiln")(written, written[:4])
    torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(written, x)


def test_a_buffer_that_a_host_kernel_reads_through_a_view_is_written_after_it():
    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.randn(4, 4))
            self.register_buffer("taps", torch.randn(4, 4))

        def forward(self, x):
            y = torch.fft.fft(self.taps.t()).abs() * self.scale * x
            self.taps.mul_(0.5)
            return y * self.taps

    eager = Filter()
    model = copy.deepcopy(eager)
    called = torch.compile(model, backend="kiln")
    for x in torch.randn(3, 4, 4):
        eager(x).square().sum().backward()
        called(x).square().sum().backward()
        torch.testing.assert_close(model.taps, eager.taps)
        torch.testing.assert_close(model.scale.grad, eager.scale.grad, rtol=1e-4, atol=1e-4)
