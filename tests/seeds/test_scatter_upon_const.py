"""A scatter of one number into a tensor of one number is a choice by index: what is counted, and to
the byte what is read and written. 1024 by 2048 numbers of float32, indices of int64."""

import copy

import pytest
import torch

import kiln

from norms import assert_close_by_norm

M, N, L = 1024, 2048, 2


def compiled(fn, *args):
    """What the compiled function gives, which is what eager mode gives; mutated inputs too."""
    given = copy.deepcopy(args)
    got = torch.compile(fn, backend="kiln", fullgraph=True)(*args)
    due = fn(*given)
    torch.testing.assert_close(got, due, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(args, given, rtol=1e-3, atol=1e-3)
    return got


def matches():
    """Of this pattern, of all."""
    return kiln.counters["scatter_upon_const_tensor"], kiln.counters["pattern_matches"]


def scattered(shape, background, dim, value, unsqueezed):
    def fn(index):
        base = torch.full(shape, background, device=index.device)
        return torch.scatter(base, dim, index.unsqueeze(unsqueezed), value)

    return fn


@pytest.mark.parametrize(
    "shape, dim, index, unsqueezed, due",
    [
        pytest.param((L, M, N), 2, (L, M), 2, L * M * N * 4 + L * M * 8, id="3d_tensor"),
        pytest.param((M, N), 0, (N,), 0, M * N * 4 + N * 8, id="non_last_dim"),
        pytest.param((M, N), -1, (M,), 1, M * N * 4 + M * 8, id="neg_scatter_dim"),
        pytest.param((M, N), 1, (M,), 1, M * N * 4 + M * 8, id="nonzero_const_tensor"),
    ],
)
def test_one_kernel_reads_the_index_and_writes_the_result(
    shape, dim, index, unsqueezed, due, device
):
    indices = torch.randint(0, shape[dim], index, device=device)
    compiled(scattered(shape, 3.14, dim, 2.718, unsqueezed), indices)
    assert matches() == (1, 1)
    assert kiln.metrics.num_bytes_accessed == due
    assert (kiln.metrics.generated_kernel_count, kiln.metrics.launch_count) == (1, 1)


def test_the_bytes_are_those_that_are_known():
    """What the formulas above come to."""
    assert L * M * N * 4 + L * M * 8 == 16_793_600
    assert M * N * 4 + N * 8 == 8_404_992
    assert M * N * 4 + M * 8 == 8_396_800


def test_an_artifact_of_the_cache_counts_the_same(device):
    fn = scattered((M, N), 3.14, 1, 2.718, 1)
    for _ in range(2):
        torch._dynamo.reset()
        kiln.counters.clear()
        kiln.metrics.reset()
        compiled(fn, torch.randint(0, N, (M,), device=device))
        assert matches() == (1, 1)
        assert kiln.metrics.num_bytes_accessed == 8_396_800
    assert (kiln.counters["cache_hit"], kiln.counters["compiles"]) == (1, 0)


def test_shorter_index_tensor(device):
    compiled(scattered((M, N), 3.14, 1, 2.718, 1), torch.randint(0, N, (M // 2,), device=device))
    assert matches() == (0, 0)


def test_can_not_optimize_due_to_dense(device):
    def fn(index):
        return torch.scatter(torch.zeros(M, N, device=device), 1, index, 0.618)

    # Each index of a row once, so that the order of writing changes nothing.
    compiled(fn, torch.randint(0, N, (M, N // 2), device=device))
    assert matches()[0] == 0
    assert kiln.metrics.num_bytes_accessed >= M * N * 4 + M * (N // 2) * (8 + 4) == 20_971_520


def test_can_not_optimize_due_to_non_const(device):
    """Three kernels: a copy, the scatter and the copy back, of which the last two are charged
    for what they write under two names."""

    def fn(y, index):
        return y.scatter_(1, index, 0.618)

    compiled(fn, torch.randn(M, N, device=device), torch.randint(0, N, (M, 1), device=device))
    assert matches()[0] == 0
    over = M * 4 + M * N * 4
    assert kiln.metrics.num_bytes_accessed == 4 * M * N * 4 + M * (8 + 4) + over == 41_959_424


def test_cross_entropy_loss(device):
    """Of 32 times 1024 words of 502: the gradient of the logarithms is scattered upon zeros."""
    words, width, classes = 32 * 1024, 768, 502

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(width, classes)
            self.loss = torch.nn.CrossEntropyLoss()

        def forward(self, x, target):
            return self.loss(self.linear(x).view(-1, classes), target.view(-1))

    x = torch.randn(words // 1024, 1024, width, dtype=torch.bfloat16, device=device)
    target = torch.randint(0, classes, x.shape[:2], device=device)
    model = Model().to(device, torch.bfloat16)
    eager = copy.deepcopy(model)
    eager(x, target).backward()
    # Of float32: on processors eager mode adds 32,768 losses up in bfloat16.
    due = copy.deepcopy(model).float()(x.float(), target)
    got = torch.compile(model, backend="kiln", fullgraph=True)(x, target)
    got.backward()
    assert matches()[0] == 1
    torch.testing.assert_close(got.float(), due, rtol=2**-8, atol=0)
    for mine, its in zip(model.parameters(), eager.parameters(), strict=True):
        assert_close_by_norm(mine.grad, its.grad)
