"""Operators that compute with fractions of sizes: none is left to PyTorch, and each call has its own."""

import pytest
import torch
import torch.nn.functional as F

import kiln

CASES = {
    "batch norm": lambda x: F.batch_norm(x, None, None, x[0, :, 0], x[1, :, 0], training=True),
    "variance": lambda x: x.sum(0) + x.var(0),
    "deviation": lambda x: x.std(),
    "a sum over a square root": lambda x: x.sum(1) / x.shape[1] ** 0.5,
    "filled": lambda x: x + torch.full((3,), x.shape[0] / 7.0, dtype=x.dtype)[1],
    "added and taken": lambda x: (x + x.shape[0] / 3.0) - x.shape[1] / 7.0 * 1.5,
    "divided": lambda x: x / (x.shape[0] / (x.shape[1] - 1.5)),
    "of an integer": lambda x: x * (torch.arange(x.shape[2]) * (1.0 / x.shape[2])).to(x.dtype),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_fraction_of_sizes_is_computed_in_the_graph(case, dtype):
    compiled = torch.compile(CASES[case], backend="kiln", dynamic=True, fullgraph=True)
    torch.manual_seed(0)
    kiln.counters.clear()
    for sizes in ((7, 5, 6), (9, 4, 11), (3, 8, 2)):
        x = torch.randn(sizes, dtype=dtype)
        results = []
        for fn in (CASES[case], compiled):
            given = x.clone().requires_grad_()
            y = fn(given)
            weights = torch.linspace(0.5, 1.5, y.numel()).view(y.shape).to(dtype)
            results.append((y.detach(), *torch.autograd.grad(y, given, weights)))
        near = 4 * torch.finfo(dtype).eps if dtype == torch.bfloat16 else None
        torch.testing.assert_close(results[1], results[0], rtol=near, atol=near)
    assert kiln.counters["host_kernels"] == 0
    assert kiln.counters["cache_miss"] + kiln.counters["cache_hit"] <= 2  # one artifact each for all sizes


def test_a_fraction_that_is_no_arithmetic_of_sizes_is_pytorchs():
    def fn(x):
        return x * (x.shape[0] / 3.0) ** (x.shape[1] / 7.0)

    compiled = torch.compile(fn, backend="kiln", dynamic=True, fullgraph=True)
    for sizes in ((7, 5), (9, 4)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(x), fn(x))
