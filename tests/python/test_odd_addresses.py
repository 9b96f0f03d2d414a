"""Inputs whose addresses are no multiples of 16 bytes: views into the middle of a storage."""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("full_precision")
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=CUDA)]


def placed(shape, device, dtype=torch.float32, offset=1):
    """Random elements that begin `offset` elements behind an aligned address."""
    count = 1
    for size in shape:
        count *= size
    storage = torch.randn(count + offset, device=device).to(dtype)
    return storage[offset:].view(shape)


def layer_norm_gradients(x, w, dy):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, w.shape, w), (x, w), dy)


# What is computed, of arrays of these shapes.
CASES = {
    "pointwise": (lambda x, y: torch.exp(x) + y, [(64, 256), (64, 256)]),
    "rows": (lambda x: F.softmax(x, -1), [(33, 1000)]),
    "long rows": (lambda x: x.sum(-1), [(4, 40000)]),
    "columns": (lambda x: x.sum(0), [(3000, 512)]),
    "layer norm": (lambda x, w: F.layer_norm(x, w.shape, w), [(64, 768), (768,)]),
    "transpose": (lambda x: x.t().contiguous() + 1, [(512, 256)]),
    "cat": (lambda x, y: torch.cat([x, y], -1) * 2, [(64, 128), (64, 40)]),
    "scan": (lambda x: x.abs().cumsum(-1), [(8, 4096)]),
    "sort": (lambda x: x.sort(-1).values, [(8, 2048)]),
    "top": (lambda x: x.topk(8).values, [(4, 32000)]),
    "argmax": (lambda x: x.argmax(-1), [(16, 5000)]),
    "pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [(2, 8, 32, 32)]),
    "product": (lambda x, w: x @ w, [(128, 64), (64, 256)]),
    "odd product": (lambda x, w: x @ w, [(128, 65), (65, 257)]),
    "short sums": (lambda x, w: x @ w, [(1024, 16), (16, 1024)]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 16, 14, 14), (32, 16, 3, 3)]),
    "depthwise": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=32),
        [(4, 32, 56, 56), (32, 1, 3, 3)],
    ),
    "attention": (F.scaled_dot_product_attention, [(2, 4, 64, 64)] * 3),
    "gelu gradient": (
        lambda g, w, x: torch.ops.aten.gelu_backward(g @ w, x, approximate="tanh"),
        [(4096, 128), (128, 2048), (4096, 2048)],
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_inputs_at_odd_addresses(case, device, dtype):
    if (case, device, dtype) == ("attention", "cuda", torch.float32):
        pytest.skip("PyTorch's own kernel computes it, and traps in eager mode too")
    fn, shapes = CASES[case]
    arrays = [placed(shape, device, dtype) for shape in shapes]
    for array in arrays:
        assert array.data_ptr() % 16 != 0
    got = torch.compile(fn, backend="kiln", fullgraph=True)(*arrays)
    due = fn(*(array.clone() for array in arrays))
    tolerance = 1e-3 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(got, due, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_inputs_at_odd_addresses(device):
    arrays = [placed(shape, device) for shape in [(64, 768), (768,), (64, 768)]]
    got = torch.compile(layer_norm_gradients, backend="kiln")(*arrays)
    torch.testing.assert_close(got, layer_norm_gradients(*arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_an_artifact_for_aligned_inputs_is_not_run_on_others(device):
    """Only the addresses of these calls differ."""
    compiled = torch.compile(lambda x: torch.exp(x) * 2, backend="kiln", dynamic=False)
    storage = torch.randn(64 * 256 + 4, device=device)
    for offset in (0, 1, 2, 4):
        x = storage[offset : offset + 64 * 256].view(64, 256)
        torch.testing.assert_close(compiled(x), torch.exp(x) * 2)
