"""cuBLASLt multiplies a gradient with that of a tanh gelu while it writes the product."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kiln

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


class TanhGelus(nn.Module):
    """A gelu of PyTorch's, and one that a model writes itself."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 2048, bias=False)
        self.second = nn.Linear(2048, 2048, bias=False)
        self.last = nn.Linear(2048, 64)

    def forward(self, x):
        y = self.second(F.gelu(self.first(x), approximate="tanh"))
        inner = math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))
        return self.last(0.5 * y * (1 + torch.tanh(inner)))


def gradients(model, x, compiled=False):
    run = torch.compile(model, backend="kiln", fullgraph=True) if compiled else model
    model.zero_grad()
    x = x.detach().requires_grad_()
    run(x).square().mean().backward()
    return [x.grad, *(p.grad for p in model.parameters())]


def fused_calls(model, x):
    told = kiln.explain(model, x.detach().requires_grad_())
    return [
        call
        for graph in told.graphs
        for call in graph.library_calls
        if "gelu_tanh_gradient" in call
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("rows", [(4, 1024), (3, 1333)])
def test_both_products_have_it_and_the_error_is_no_larger(dtype, rows):
    torch.manual_seed(0)
    model = TanhGelus().cuda().to(dtype)
    x = torch.randn(*rows, 64, device="cuda").to(dtype)
    assert len(fused_calls(model, x)) == 2
    due = gradients(copy.deepcopy(model).double(), x.double())
    eager = gradients(copy.deepcopy(model), x)
    got = gradients(model, x, compiled=True)
    for exact, peer, ours in zip(due, eager, got, strict=True):
        scale = exact.abs().max()
        error = ((ours - exact) / scale).abs().max()
        assert error <= 1.5 * ((peer - exact) / scale).abs().max() + 1e-3


def test_float32_keeps_its_exact_tanh():
    model = TanhGelus().cuda()
    assert fused_calls(model, torch.randn(4, 1024, 64, device="cuda")) == []


@pytest.mark.parametrize("hidden, bias", [(2052, False), (2048, True)], ids=["odd", "summed"])
def test_what_is_no_vector_or_is_summed_is_a_kernels(hidden, bias):
    first = nn.Linear(64, hidden, bias=bias)
    model = nn.Sequential(first, nn.GELU("tanh"), nn.Linear(hidden, 64)).cuda().bfloat16()
    x = torch.randn(4, 1024, 64, device="cuda", dtype=torch.bfloat16)
    assert fused_calls(model, x) == []
    torch.testing.assert_close(
        gradients(model, x, compiled=True), gradients(model, x), rtol=3e-2, atol=3e-2
    )
