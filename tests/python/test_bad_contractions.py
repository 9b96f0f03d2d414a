"""Products, convolutions and attention of sizes and strides that no model means: eager mode's results,
or its error."""

import cudnn_stand_in  # noqa: F401
import pytest
import torch
import torch.nn.functional as F


def assert_as_eager(fn, *inputs):
    """The result and the gradients of all inputs in floating point."""
    results = []
    for called in (fn, torch.compile(fn, backend="kiln", fullgraph=True)):
        given = []
        for x in inputs:
            x = x.detach()
            given.append(x.requires_grad_() if x.is_floating_point() else x)
        y = called(*given)
        (y * torch.linspace(1, 2, y.numel()).view(y.shape)).sum().backward()
        results.append((y.detach(), [x.grad for x in given]))
        for x in given:
            x.grad = None
    (due, due_gradients), (got, gradients) = results
    torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients, due_gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(3, 1, 6, 6), (2, 3, 6, 6), (5, 6), (6, 5)], ids=str)
def test_a_mask_that_does_not_broadcast_is_eager_modes_error(sizes):
    q = torch.randn(2, 2, 6, 8)
    mask = torch.ones(sizes, dtype=torch.bool)

    def attend(q, mask):
        return F.scaled_dot_product_attention(q, q, q, mask)

    with pytest.raises(RuntimeError):
        attend(q, mask)
    with pytest.raises(RuntimeError, match="scaled_dot_product_attention"):
        torch.compile(attend, backend="kiln", fullgraph=True)(q, mask)


@pytest.mark.parametrize("queries, keys", [(0, 4), (0, 0), (4, 0)])
def test_attention_of_a_length_of_0(queries, keys):
    q, k, v = torch.randn(2, 2, queries, 8), torch.randn(2, 2, keys, 8), torch.randn(2, 2, keys, 8)
    assert_as_eager(F.scaled_dot_product_attention, q, k, v)


@pytest.mark.parametrize("width", [1, 37, 300])
def test_attention_of_heads_that_fused_kernels_do_not_have(width):
    q, k, v = (torch.randn(2, 2, length, width) for length in (5, 7, 7))
    assert_as_eager(F.scaled_dot_product_attention, q, k, v)


@pytest.mark.parametrize("width", [20, 264])
def test_cudnns_attention_of_heads_that_cudnn_does_not_have(width):
    q, k, v = (torch.randn(2, 2, length, width) for length in (5, 7, 7))

    def attend(q, k, v):
        return torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True)[0]

    assert_as_eager(attend, q, k, v)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("width", [264, 300])
def test_heads_over_the_limit_of_fused_kernels_on_a_gpu(width):
    q, k, v = (
        torch.randn(2, 2, length, width, device="cuda", dtype=torch.bfloat16) for length in (5, 7, 7)
    )
    due = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    got = torch.compile(F.scaled_dot_product_attention, backend="kiln", fullgraph=True)(q, k, v)
    torch.testing.assert_close(got.double(), due, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("m, k, n", [(3, 0, 5), (0, 4, 5), (3, 4, 0), (0, 0, 0)])
def test_products_with_a_size_of_0(m, k, n):
    a, b, bias = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
    assert_as_eager(torch.mm, a, b)
    assert_as_eager(torch.addmm, bias, a, b)
    assert_as_eager(torch.bmm, torch.randn(2, m, k), torch.randn(2, k, n))
    assert_as_eager(lambda a, b, bias: torch.relu(a @ b + bias), a, b, bias)


def test_a_convolution_of_no_images():
    def fn(x, w, b):
        return F.relu(F.conv2d(x, w, b, padding=1))

    assert_as_eager(fn, torch.randn(0, 3, 6, 6), torch.randn(4, 3, 3, 3), torch.randn(4))


def test_products_of_operands_that_repeat_elements():
    row, column = torch.randn(1, 6).expand(4, 6), torch.randn(6, 1).expand(6, 5)
    assert_as_eager(torch.mm, row, column)
    one = torch.randn(1, 1).expand(4, 6)
    assert_as_eager(torch.mm, one, torch.randn(6, 5))
    assert_as_eager(torch.bmm, torch.randn(1, 4, 6).expand(3, 4, 6), torch.randn(3, 6, 5))
    assert_as_eager(torch.addmm, torch.randn(1).expand(4, 5), row, torch.randn(6, 5))


def test_convolutions_of_operands_that_repeat_elements():
    x, w, b = torch.randn(2, 1, 6, 1), torch.randn(4, 1, 3, 3), torch.randn(1)
    assert_as_eager(F.conv2d, x.expand(2, 3, 6, 6), w.expand(4, 3, 3, 3), b.expand(4))


def test_attention_of_operands_that_repeat_elements():
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 1, 6, 8), torch.randn(1, 1, 1, 8)
    mask = torch.randn(1, 1, 6).expand(2, 4, 6, 6)
    assert_as_eager(
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
        q, k.expand(2, 4, 6, 8), v.expand(2, 4, 6, 8), mask,
    )  # fmt: skip
