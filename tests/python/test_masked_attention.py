"""Rows of attention that see nothing: zeros, and no gradients, as in eager mode."""

import math

import pytest
import torch
import torch.nn.functional as F


def mask_of(kind):
    """Of two sequences the second is padded: its last rows see nothing."""
    seen = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    seen[1, :, 3:] = False
    if kind == "bool":
        return seen
    return torch.zeros(seen.shape).masked_fill(~seen, -math.inf)


def assert_as_eager(attend, *inputs):
    results = []
    for fn in (attend, torch.compile(attend, backend="kiln", fullgraph=True)):
        given = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
        y = fn(*given)
        if y.requires_grad:
            (y * torch.linspace(1, 2, y.numel()).view(y.shape)).sum().backward()
        results.append((y.detach(), [x.grad for x in given]))
    (due, due_gradients), (got, gradients) = results
    assert not due.isnan().any()
    torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients, due_gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("kind", ["bool", "infinity"])
def test_a_row_that_sees_nothing_is_zero_and_has_no_gradient(kind, training):
    mask = mask_of(kind)
    q, k, v = (torch.randn(2, 2, 6, 8, requires_grad=training) for _ in range(3))
    assert_as_eager(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), q, k, v)


def test_a_mask_that_wants_a_gradient_has_none_where_a_row_sees_nothing():
    q = torch.randn(2, 2, 6, 8, requires_grad=True)
    mask = mask_of("infinity").requires_grad_()
    assert_as_eager(lambda q, m: F.scaled_dot_product_attention(q, q, q, m), q, mask)


def test_a_layer_over_padded_sequences_trains():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    padded = torch.tensor([[False] * 5, [True] * 5])

    def attend(x):
        return layer(x, x, x, key_padding_mask=padded, need_weights=False)[0]

    assert_as_eager(attend, torch.randn(2, 5, 8, requires_grad=True))


def test_attention_to_no_keys_is_zero():
    q, k = torch.randn(2, 2, 3, 8), torch.randn(2, 2, 0, 8)
    assert_as_eager(lambda q, k: F.scaled_dot_product_attention(q, k, k), q, k)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("kind", ["bool", "infinity", "all rows of a sequence"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_on_a_gpu_such_a_row_is_what_eager_mode_makes_of_it(dtype, kind):
    """There it depends on the library: a number, 0 or NaN."""
    inputs = [torch.randn(2, 4, 64, 64, device="cuda", dtype=dtype) for _ in range(4)]
    mask = torch.rand(2, 1, 64, 64, device="cuda") > 0.3
    mask[..., 0], mask[:, :, 3] = True, False
    if kind == "infinity":
        mask = torch.zeros(mask.shape, device="cuda", dtype=dtype).masked_fill(~mask, -math.inf)
    elif kind == "all rows of a sequence":
        mask = torch.tensor([False, True], device="cuda").view(2, 1, 1, 1).expand(2, 1, 1, 64)

    def results(attend):
        *given, gradient = (x.detach().clone().requires_grad_() for x in inputs)
        y = attend(*given)
        return [y.detach(), *torch.autograd.grad(y, given, gradient)]

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask)

    due, got = results(attend), results(torch.compile(attend, backend="kiln", fullgraph=True))
    # Kiln leaves the last kind to cuDNN, which rounds the weights to the dtype; eager mode's parts do not.
    near = 2 * torch.finfo(dtype).eps if kind == "all rows of a sequence" else 1e-3
    torch.testing.assert_close(got, due, rtol=max(near, 1e-3), atol=max(near, 1e-3), equal_nan=True)
