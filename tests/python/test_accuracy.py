"""Sums of many float32 numbers on the CPU: as good as eager's, which adds them in a tree."""

import pytest
import torch
import torch.nn.functional as F

EPSILON = torch.finfo(torch.float32).eps


def compiled(fn):
    return torch.compile(fn, backend="kiln", fullgraph=True)


def error(found, due):
    """The greatest, of the greatest number there is."""
    return ((found.double() - due).abs().max() / due.abs().max()).item()


def check(fn, *args, roundings=4):
    """`fn` is as far from itself in doubles as a few roundings of its result, or as eager is."""
    due = fn(*[a.double() for a in args])
    allowed = max(roundings * EPSILON, 4 * error(fn(*args), due))
    found = error(compiled(fn)(*args), due)
    assert found <= allowed, f"{found:.1e}, expected at most {allowed:.1e}"


def test_more_ones_than_a_float_counts_are_counted_down_columns():
    ones = torch.ones(2**25, 3)
    assert compiled(lambda x: x.sum(0))(ones).tolist() == [2.0**25] * 3
    assert compiled(lambda x: (x - 1).exp().mean(0))(ones).tolist() == [1.0] * 3


def test_more_ones_than_a_float_counts_are_counted_one_by_one():
    total = compiled(lambda x: x.cumsum(0))(torch.ones(2**25))
    assert total[[0, 2**24 - 1, 2**24 + 1, -1]].tolist() == [1.0, 2.0**24, 2.0**24 + 2, 2.0**25]


@pytest.mark.parametrize("rows", [20_000, 400_000])
def test_the_deviation_of_numbers_far_from_zero(rows):
    x = torch.rand(rows, 8) + 100
    check(lambda x: x.std(0), x)
    check(lambda x: x.var(0), x)


SUMS = {
    "sum": (lambda x: x.sum(0), (131_072, 16)),
    "mean": (lambda x: x.mean(0), (131_072, 16)),
    "two axes": (lambda x: x.sum((0, 2)), (40_000, 5, 7)),
    "planes": (lambda x: x.sum((0, 2, 3)), (8, 16, 100, 100)),
    "short rows": (lambda x: x.sum((0, 2)), (200_000, 1, 3)),
    "middle": (lambda x: x.sum(1), (4, 131_072, 8)),
    "norm": (lambda x: x.norm(dim=0), (131_072, 4)),
    "logsumexp": (lambda x: x.logsumexp(0), (131_072, 4)),
    "softmax": (lambda x: x.softmax(0).sum(0), (131_072, 4)),
    "batch norm": (lambda x: F.batch_norm(x + 30, None, None, training=True), (131_072, 4)),
    "running rows": (lambda x: x.cumsum(1), (9, 131_072)),
    "running columns": (lambda x: x.cumsum(0), (131_072, 9)),
    "running product": (lambda x: (1 + (x - 0.5) * 1e-4).cumprod(0), (131_072,)),
}


@pytest.mark.parametrize("name", SUMS)
def test_long_sums_are_near_those_of_doubles(name):
    fn, shape = SUMS[name]
    check(fn, torch.rand(shape))


def test_sums_of_a_number_of_rows_that_varies():
    called = torch.compile(lambda x: x.sum(0), backend="kiln", fullgraph=True, dynamic=True)
    for rows in (3, 600, 131_072):
        x = torch.rand(rows, 5)
        assert error(called(x), x.double().sum(0)) <= 4 * EPSILON


def test_a_bias_takes_the_gradients_of_a_million_rows():
    x = torch.rand(2**20, 8) + 0.5
    bias = torch.zeros(8, requires_grad=True)
    compiled(lambda x, bias: (x + bias).square().sum())(x, bias).backward()
    assert error(bias.grad, 2 * x.double().sum(0)) <= 4 * EPSILON
