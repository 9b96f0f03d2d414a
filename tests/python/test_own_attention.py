"""Attention by Kiln's own kernels (the option own_attention) on a GPU that has cuDNN, against float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import kiln

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")

BF16, F16 = torch.bfloat16, torch.float16
# Sizes [b, h, m, n, e], dtype, causal, the mask's sizes and dtype.
CASES = {
    "plain": ((2, 4, 300, 300, 64), BF16, False, None),
    "causal": ((2, 4, 257, 257, 128), BF16, True, None),
    "half": ((1, 4, 77, 131, 96), F16, False, None),
    "wide": ((1, 2, 130, 130, 256), BF16, True, None),
    "narrow": ((2, 4, 190, 190, 32), F16, True, None),
    "one query": ((4, 4, 1, 200, 64), BF16, False, None),
    "mask of keys": ((2, 4, 160, 200, 64), BF16, False, ((2, 1, 1, 200), torch.bool)),
    "mask of heads": ((2, 4, 160, 200, 64), BF16, False, ((1, 4, 160, 200), BF16)),
}


def made(name):
    """The function of a case, and its inputs."""
    (b, h, m, n, e), dtype, causal, mask = CASES[name]
    torch.manual_seed(0)
    q, k, v = (torch.randn(b, h, s, e, device="cuda", dtype=dtype) for s in (m, n, n))
    bias = None
    if mask is not None and mask[1] is torch.bool:
        bias = torch.rand(mask[0], device="cuda") > 0.3
    elif mask is not None:
        bias = torch.randn(mask[0], device="cuda", dtype=mask[1])

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)

    return attend, (q, k, v), bias, causal


def trained(fn, inputs):
    """The result and the gradients."""
    given = [x.detach().clone().requires_grad_() for x in inputs]
    y = fn(*given)
    torch.manual_seed(1)
    y.backward(torch.randn(y.shape, device="cuda").to(y.dtype))
    return [y.detach(), *(x.grad for x in given)]


def exactly(inputs, bias, causal):
    """By definition, in float64."""

    def attend(q, k, v):
        s = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        if bias is not None:
            s = s.masked_fill(~bias, -math.inf) if bias.dtype is torch.bool else s + bias.double()
        if causal:
            ones = torch.ones(s.shape[2:], dtype=torch.bool, device=s.device)
            s = s.masked_fill(~ones.tril(), -math.inf)
        return s.softmax(-1) @ v

    given = [x.detach().double().requires_grad_() for x in inputs]
    y = attend(*given)
    torch.manual_seed(1)
    y.backward(torch.randn(y.shape, device="cuda").to(inputs[0].dtype).double())
    return [y.detach(), *(x.grad for x in given)]


def apart(found, due):
    return ((found.double() - due).norm() / due.norm()).item()


def own(fn, **more):
    return torch.compile(fn, backend="kiln", fullgraph=True, options={"own_attention": True}, **more)


@pytest.mark.parametrize("name", CASES)
def test_own_kernels_are_as_near_to_float64_as_eager_mode(name):
    attend, inputs, bias, causal = made(name)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        eager, found = trained(attend, inputs), trained(own(attend), inputs)
    for e, f, due in zip(eager, found, exactly(inputs, bias, causal), strict=True):
        assert f.stride() == e.stride()
        assert apart(f, due) <= 1.2 * apart(e, due)


def test_the_plan_names_the_kernels_and_equal_inputs_give_equal_bits():
    attend, inputs, _, _ = made("causal")
    compiled = own(attend)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        first, second = trained(compiled, inputs), trained(compiled, inputs)
        code = "".join(kiln.get_code(compiled, *inputs))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert "kiln_tem_fused_attention" in code


def test_lengths_may_change():
    attend, (q, k, v), _, _ = made("causal")
    compiled = own(attend, dynamic=True)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for length in (257, 130, 64, 17):
            some = [x[:, :, :length].contiguous() for x in (q, k, v)]
            found = trained(compiled, some)
            for f, due in zip(found, exactly(some, None, True), strict=True):
                assert apart(f, due) < 4e-3  # weights and results are rounded to 8 bits once each


def test_the_backward_drops_what_the_forward_did():
    # Of equal weights, values that are the unit matrix show which ones are left.
    q = torch.zeros(2, 4, 64, 64, device="cuda", dtype=BF16)
    eye = torch.eye(64, device="cuda", dtype=BF16).expand(2, 4, 64, 64).contiguous()
    v = eye.clone().requires_grad_()

    def attend(q, v):
        return F.scaled_dot_product_attention(q, q, v, dropout_p=0.25)

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        y = own(attend)(q, v)
        y.backward(eye)
    left = y.detach() != 0
    assert torch.equal(left, v.grad.transpose(2, 3) != 0)
    assert abs(left.float().mean().item() - 0.75) < 0.02
