"""The attention operators that PyTorch has for CUDA are steps of Kiln's graphs.

On the CPU, where PyTorch lacks them, Kiln's own blocks compute them."""

import math
import warnings

import cudnn_stand_in  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

import kiln
from kiln.flash_states import take_states_as_bits
from refusals import refuse

_aten = torch.ops.aten
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


@pytest.fixture(autouse=True)
def no_counts():
    kiln.counters.clear()


def flash(q, k, v):
    return _aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, scale=0.3)[:2]


def efficient(q, k, v, bias=None):
    return _aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, True, scale=0.3)[:2]


def defined(q, k, v, bias=None):
    """The result and the logarithms of the rows' sums, in float64."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * 0.3 + (0 if bias is None else bias.double())
    scores = scores.masked_fill(torch.ones(scores.shape[2:]).triu(1).bool(), -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def trained(fn, inputs, *others):
    """The results, and the gradients of the first."""
    given = [x.detach().clone().requires_grad_() for x in inputs]
    y, logsumexp = fn(*given, *others)
    (y.double() * torch.arange(y.numel()).cos().view(y.shape)).sum().backward()
    return y.detach(), logsumexp.detach(), [x.grad for x in given]


def heads(h, m, inside=False):
    return torch.randn(1, m, h, 8).transpose(1, 2) if inside else torch.randn(1, h, m, 8)


def near(found, due):
    assert (found.double() - due).norm() <= 1e-5 * due.norm()


@pytest.mark.parametrize(("m", "inside"), [(2049, False), (2049, True), (9, False)])
def test_flash_attention(m, inside):
    inputs = [heads(4, m, inside), heads(2, m, inside), heads(2, m, inside)]
    y, logsumexp, gradients = trained(torch.compile(flash, backend="kiln", fullgraph=True), inputs)
    due = trained(defined, inputs)
    assert y.stride() == inputs[0].stride() and logsumexp.shape == (1, 4, m)
    near(y, due[0])
    near(logsumexp, due[1])
    for x, gradient, right in zip(inputs, gradients, due[2], strict=True):
        near(gradient, right)
    assert kiln.counters["host_kernels"] == 0


@pytest.mark.parametrize(("m", "rows", "biased"), [(2049, 2080, False), (2049, 2080, True), (9, 32, True)])
def test_efficient_attention_gives_rows_in_whole_32(m, rows, biased):
    inputs = [heads(4, m) for _ in range(3)]
    bias = [torch.randn(1, 1, 1, m).expand(1, 4, m, m)] if biased else []
    y, logsumexp, gradients = trained(torch.compile(efficient, backend="kiln", fullgraph=True), inputs, *bias)
    due = trained(defined, inputs, *bias)
    assert y.transpose(1, 2).is_contiguous() and logsumexp.shape == (1, 4, rows)
    assert (logsumexp[..., m:] == math.inf).all()
    near(y, due[0])
    near(logsumexp[..., :m], due[1])
    for gradient, right in zip(gradients, due[2], strict=True):
        near(gradient, right)
    assert kiln.counters["host_kernels"] == 0


@pytest.mark.filterwarnings("ignore:kiln. graph")
@pytest.mark.parametrize("half", ["forward", "backward"])
def test_without_dropout_a_half_of_flash_attention_may_be_pytorchs(half, monkeypatch):
    refuse(monkeypatch, half)
    inputs = [heads(4, 2049) for _ in range(3)]
    with torch._functorch.config.patch(enable_autograd_cache=False):
        _, _, gradients = trained(torch.compile(flash, backend="kiln", fullgraph=True), inputs)
    for gradient, right in zip(gradients, trained(defined, inputs)[2], strict=True):
        near(gradient, right)
    assert kiln.counters["eager_graphs"] == 1


def test_lengths_may_be_symbols():
    for fn in (flash, efficient):
        compiled = torch.compile(fn, backend="kiln", dynamic=True, fullgraph=True)
        for m in (2049, 2080):
            inputs = [heads(4, m) for _ in range(3)]
            y, logsumexp, gradients = trained(compiled, inputs)
            due = trained(defined, inputs)
            near(y, due[0])
            near(logsumexp[..., :m], due[1])
            near(gradients[0], due[2][0])
        assert kiln.counters["host_kernels"] == 0
        assert kiln.counters["compiles"] <= 4


def joint(fn):
    """Forward and backward of flash attention, as AOTAutograd gives them."""
    with FakeTensorMode():
        q = torch.empty(2, 4, 33, 64, dtype=torch.bfloat16, requires_grad=True)
        module = aot_export_joint_simple(fn, (q,), trace_joint=True)
    take_states_as_bits(module)
    values = {n.name: n.meta["val"] for n in module.graph.nodes if "val" in n.meta}
    return [values["getitem_6"], values["getitem_7"], *values["_scaled_dot_product_flash_attention"][6:8]]


def test_states_that_only_a_backward_reads_are_bits():
    states = joint(lambda q: _aten._scaled_dot_product_flash_attention(q, q, q)[:1])
    assert [(s.dtype, s.shape) for s in states] == 2 * [(torch.int64, (2,)), (torch.int64, ())]


def test_a_state_that_leaves_the_graph_stays_as_it_is():
    def fn(q):
        results = _aten._scaled_dot_product_flash_attention(q, q, q)
        return results[0], results[6]

    assert {s.dtype for s in joint(fn)} == {torch.uint64}


GPU_CASES = {
    "flash": (SDPBackend.FLASH_ATTENTION, (2, 4, 257, 64), 2, False, True),
    "flash, all": (SDPBackend.FLASH_ATTENTION, (1, 2, 130, 128), 2, False, False),
    "flash, odd heads": (SDPBackend.FLASH_ATTENTION, (2, 2, 100, 44), 2, False, True),
    "efficient": (SDPBackend.EFFICIENT_ATTENTION, (2, 4, 257, 64), 4, False, True),
    "efficient, mask": (SDPBackend.EFFICIENT_ATTENTION, (2, 4, 200, 64), 4, True, False),
}


@on_a_gpu
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", GPU_CASES)
def test_backends_of_a_gpu(name, own):
    backend, (b, h, m, e), x, masked, causal = GPU_CASES[name]
    inputs = [torch.randn(b, n, m, e, device="cuda", dtype=torch.bfloat16) for n in (h, x, x)]
    mask = torch.rand(b, 1, 1, m, device="cuda") > 0.3 if masked else None

    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=h != x)

    def run(called, dtype):
        given = [t.detach().to(dtype).requires_grad_() for t in inputs]
        y = called(*given)
        y.backward(torch.ones_like(y).cumsum(-1) / e)
        return [y.detach(), *(t.grad for t in given)]

    with sdpa_kernel(backend):
        eager = run(fn, torch.bfloat16)
        compiled = torch.compile(fn, backend="kiln", fullgraph=True, options={"own_attention": own})
        found = run(compiled, torch.bfloat16)
    with sdpa_kernel(SDPBackend.MATH):
        due = run(fn, torch.float64)
    for one, its, right in zip(found, eager, due, strict=True):
        assert one.dtype == its.dtype and one.stride() == its.stride()
        assert (one.double() - right).norm() <= 1.2 * (its.double() - right).norm()
    assert kiln.counters["host_kernels"] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_where_the_width_changes_results_and_gradients_are_right(dtype):
    attend = F.scaled_dot_product_attention
    compiled = torch.compile(attend, backend="kiln", dynamic=True, fullgraph=True)
    kiln.counters.clear()
    for width, length in ((32, 17), (24, 40)):
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 4, n, width, dtype=dtype) for n in (length, 33, 33))
        results = []
        for fn in (attend, compiled):
            given = [x.clone().requires_grad_() for x in (q, k, v)]
            y = fn(*given)
            results.append([y.detach(), *torch.autograd.grad(y, given, q + 1)])
        near = 4 * torch.finfo(dtype).eps if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(results[1], results[0], rtol=near, atol=near)
    assert kiln.counters["host_kernels"] == 0


def test_a_graph_is_for_one_width_of_heads_and_all_lengths():
    compiled = torch.compile(F.scaled_dot_product_attention, backend="kiln", dynamic=True, fullgraph=True)
    counts = []
    for width, length in ((32, 17), (32, 40), (24, 40)):
        q, k, v = (torch.randn(2, 4, n, width) for n in (length, 33, 33))
        torch.testing.assert_close(compiled(q, k, v), F.scaled_dot_product_attention(q, k, v))
        counts.append(kiln.counters["compiles"])
    assert counts[0] == counts[1] < counts[2]


def test_a_width_that_is_marked_as_dynamic_stays_a_symbol():
    compiled = torch.compile(F.scaled_dot_product_attention, backend="kiln", fullgraph=True)
    for width in (32, 24):
        q, k, v = (torch.randn(2, 4, n, width) for n in (17, 33, 33))
        for x in (q, k, v):
            torch._dynamo.mark_dynamic(x, 3)
        torch.testing.assert_close(compiled(q, k, v), F.scaled_dot_product_attention(q, k, v))
    assert kiln.counters["compiles"] == 1


def test_attention_of_float64_trains_in_pytorch_without_a_warning():
    q = torch.randn(2, 4, 17, 32, dtype=torch.float64, requires_grad=True)

    def attend(q):
        return F.scaled_dot_product_attention(q, q, q)

    (due,) = torch.autograd.grad(attend(q).sum(), q)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = torch.compile(attend, backend="kiln", fullgraph=True)(q)
        (gradient,) = torch.autograd.grad(y.sum(), q)
    torch.testing.assert_close(gradient, due)
