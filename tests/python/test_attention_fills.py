"""Scores that a bool fills with a number, in attention that is written by hand."""

import math

import pytest
import torch

import kiln

B, H, M, N, E = 2, 3, 9, 13, 16
SEEN = torch.rand(B, 1, M, N, generator=torch.Generator().manual_seed(5)) < 0.6
SEEN[1, 0, 3] = False  # a row that sees nothing
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
LEAST = {dtype: torch.finfo(dtype).min for dtype in (F32, BF16, F16)}


@pytest.fixture(autouse=True)
def no_counts():
    kiln.counters.clear()


def operands(dtype=F32):
    return [torch.randn(B, H, n, E).to(dtype) for n in (M, N, N)]


def filled(number):
    return lambda q, k, v, seen: (q @ k.mT / 4).masked_fill(~seen, number).softmax(-1) @ v


def filled_in_float32(number):
    def fn(q, k, v, seen):
        return (q @ k.mT / 4).float().masked_fill(~seen, number).softmax(-1).type_as(v) @ v

    return fn


def chosen(number):
    return lambda q, k, v, seen: torch.where(seen, q @ k.mT / 4, number).softmax(-1) @ v


def chosen_by_a_tensor(number):
    def fn(q, k, v, seen):
        fill = torch.full([], number, dtype=torch.float32)
        return torch.where(seen, q @ k.mT / 4, fill).softmax(-1) @ v

    return fn


def narrowed(number):
    def fn(q, k, v, seen):
        return (q @ k.mT / 4).float().masked_fill(~seen, number).half().softmax(-1) @ v

    return fn


def narrowed_by_the_softmax(number):
    def fn(q, k, v, seen):
        return (q @ k.mT / 4).float().masked_fill(~seen, number).softmax(-1, dtype=F16) @ v

    return fn


def check(fn, args, fused):
    due = fn(*args)
    found = torch.compile(fn, backend="kiln", fullgraph=True)(*args)
    assert kiln.counters["fuse_attention"] == fused
    assert found.dtype == due.dtype
    near = None if due.dtype == F32 else 4 * torch.finfo(due.dtype).eps
    torch.testing.assert_close(found, due, rtol=near, atol=near, equal_nan=True)
    return due


FAR = [
    (filled(-1e9), F32),
    (filled(LEAST[F32]), F32),
    (filled(-(10**9)), F32),
    (filled(-1e9), BF16),
    (filled(LEAST[BF16]), BF16),
    (filled(-1e4), BF16),
    (filled(-10000), F16),
    (filled(LEAST[F16]), F16),
    (filled_in_float32(-1e4), F16),
    (filled_in_float32(-1e4), BF16),
    (filled_in_float32(-1e9), F16),
    (filled_in_float32(LEAST[F32]), F16),
    (narrowed(LEAST[F16]), F16),
    (chosen_by_a_tensor(-1e9), BF16),
]


@pytest.mark.parametrize("fn, dtype", FAR)
def test_a_row_that_is_all_far_is_the_mean_of_values(fn, dtype):
    due = check(fn, [*operands(dtype), SEEN], fused=1)
    assert due.isfinite().all()


@pytest.mark.parametrize("fn", [filled(-math.inf), filled_in_float32(-math.inf), narrowed(-math.inf)])
def test_a_row_that_is_all_infinite_is_nan(fn):
    due = check(fn, [*operands(F16), SEEN], fused=1)
    assert due[1, :, 3].isnan().all()


STAYING = {
    "nan": (filled(math.nan), F32),
    "infinity": (filled(math.inf), F32),
    "near": (filled(-1e3), F32),
    "near_enough_to_be_seen": (filled(-1e4), F32),
    "near_in_bfloat16": (filled(-2e4), BF16),
    "infinite_in_a_half_type": (chosen(-1e9), F16),
    "infinite_in_bfloat16": (chosen(LEAST[F32]), BF16),
    "a_tensor_that_is_infinite_in_a_half_type": (chosen_by_a_tensor(-1e9), F16),
    "narrowed": (narrowed(LEAST[F32]), F16),
    "narrowed_just_too_far": (narrowed(-1e5), F16),
    "narrowed_by_the_softmax": (narrowed_by_the_softmax(LEAST[F32]), F16),
}


@pytest.mark.parametrize("name", STAYING)
def test_other_numbers_stay_as_they_are(name):
    """A row that is all filled is as in eager mode where half types are rounded as there."""
    fn, dtype = STAYING[name]
    args = [*operands(dtype), SEEN]
    due, found = fn(*args), torch.compile(fn, backend="kiln", fullgraph=True)(*args)
    assert kiln.counters["fuse_attention"] == 0
    near = 1e-5 if due.dtype == F32 else 4 * torch.finfo(due.dtype).eps
    sees = SEEN.any(-1).expand(B, H, M)
    torch.testing.assert_close(found[sees], due[sees], rtol=near, atol=near, equal_nan=True)
    torch._dynamo.reset()
    rounded = torch.compile(fn, backend="kiln", options={"emulate_precision_casts": True})(*args)
    torch.testing.assert_close(rounded, due, rtol=near, atol=near, equal_nan=True)


def test_scores_that_are_seen_may_be_lower_than_a_fill_of_float32():
    q, _, v = operands()
    q = q.abs()
    k = -1e4 * q[:, :, :1].expand(B, H, N, E).contiguous()
    seen = torch.zeros(M, N, dtype=torch.bool)
    seen[:, 0] = True
    check(filled(-1e4), [q, k, v, seen], fused=0)


def test_a_number_that_the_type_does_not_have_is_not_taken():
    """Eager mode refuses it."""
    with pytest.raises(RuntimeError, match="overflow"):
        chosen(-1e39)(*operands(), SEEN)
    kiln.explain(chosen(-1e39), *operands(), SEEN)
    assert kiln.counters["fuse_attention"] == 0


@pytest.mark.parametrize("dtype, fill", [(BF16, -1e9), (F16, -6e4), (BF16, -math.inf)], ids=str)
def test_under_autocast_the_result_is_of_its_type(dtype, fill):
    def fn(q, k, v, seen):
        with torch.autocast("cpu", dtype):
            return filled(fill)(q, k, v, seen)

    assert check(fn, [*operands(), SEEN], fused=1).dtype == dtype
