"""Parts of tensors whose sizes are expressions of an input's: 1 at some inputs, and then stretched."""

import pytest
import torch

import kiln


def half_of(x):
    return x.chunk(2, 0)[-1]


def least_part(x):
    return x.tensor_split(2, 0)[-1]


def last_part(x):
    return x.narrow(0, x.shape[0] - x.shape[0] // 3, x.shape[0] // 3)


def tail(x):
    return x[x.shape[0] // 2 + 1 :]


def averaged(x):
    return torch.cumsum(half_of(x), 0) + half_of(x).mean(0) + half_of(x).amax(0, keepdim=True)


def picked(x):
    part = half_of(x)
    places = torch.zeros(part.shape, dtype=torch.int64)
    return part.gather(0, places) * x[torch.arange(part.shape[0])] + x


def put(x):
    places = torch.arange(x.shape[0])
    return torch.zeros_like(x).index_put((places,), half_of(x) * 2) + x


# Each takes x of 3 rows, of which its part is 1 long.
FORMS = {
    "chunk": lambda x: half_of(x) / (1 + x),
    "roll": lambda x: half_of(x).roll(1, 0) / (1 + torch.maximum(half_of(x), x)),
    "tensor_split": lambda x: x - least_part(x).exp(),
    "narrow": lambda x: last_part(x) * x.sin(),
    "slice": lambda x: torch.where(x > 2, tail(x), x),
    "transposed": lambda x: (tail(x).t() * x.t()).contiguous(),
    "unsqueeze": lambda x: x.unsqueeze(1) * tail(x).unsqueeze(0),
    "expand": lambda x: tail(x).expand(x.shape[0], -1) + x,
    "both parts": lambda x: x[: x.shape[0] // 2].exp() + half_of(x),
    "matmul": lambda x: (tail(x) @ x.t()) + x @ x.t(),
    "matmul of batches": lambda x: tail(x).unsqueeze(-1) @ x.unsqueeze(1),
    "rows of a product": lambda x: torch.addmm(tail(x), x @ x.t(), x),
    "reductions": lambda x: averaged(x) + x,
    "sum of one": lambda x: tail(x).sum(0) + tail(x).softmax(0) + x,
    "cat": lambda x: torch.cat([tail(x), half_of(x) * x, tail(x)]),
    "stack": lambda x: torch.stack([half_of(x).expand_as(x), x]),
    "gather": picked,
    "index_put": put,
    "squeeze": lambda x: tail(x).squeeze(0) + x,
    "view": lambda x: (tail(x).reshape(-1, 1, x.shape[1]) * x).reshape(-1),
    "sum to size": lambda x: (x * half_of(x)).sum_to_size(half_of(x).shape),
}


def check(compiled, form, rows):
    """Forward, and forward with backward, against eager mode."""
    x = torch.arange(rows * 4, dtype=torch.float64).reshape(rows, 4) / 7 + 0.5
    torch.testing.assert_close(compiled(x), form(x))
    ours, due = x.clone().requires_grad_(), x.clone().requires_grad_()
    results = compiled(ours), form(due)
    torch.testing.assert_close(*results)
    weights = torch.linspace(-1, 2, results[1].numel(), dtype=x.dtype).reshape(results[1].shape)
    for result in results:
        (result * weights).sum().backward()
    torch.testing.assert_close(ours.grad, due.grad)


@pytest.mark.parametrize("form", FORMS)
def test_a_part_that_is_1_long_by_a_guard_is_broadcast(form):
    torch._dynamo.reset()
    check(torch.compile(FORMS[form], backend="kiln", dynamic=True), FORMS[form], 3)


# Where sizes are one, then are not and are equal, then are one again.
SEVERAL = {
    "equal halves": lambda x: x[: x.shape[0] // 2] * x[x.shape[0] - x.shape[0] // 2 :] + 1,
    "equal by a guard": lambda x: x[: x.shape[0] // 2] * x[x.shape[0] // 2 :] + 1,
    "a part and the rest": lambda x: x[: (x.shape[0] + 1) // 2] + tail(x).sum(0),
    "parts of two": lambda x: half_of(x) * x[: x.shape[0] // 2].exp(),
}


@pytest.mark.parametrize("form", SEVERAL)
def test_other_sizes_that_break_the_guard_are_compiled_again(form):
    torch._dynamo.reset()
    compiled = torch.compile(SEVERAL[form], backend="kiln", dynamic=True)
    for rows in (2, 4, 6, 10, 2):
        check(compiled, SEVERAL[form], rows)


def test_a_size_for_which_eager_mode_has_an_error_has_it_too():
    torch._dynamo.reset()
    compiled = torch.compile(FORMS["chunk"], backend="kiln", dynamic=True)
    check(compiled, FORMS["chunk"], 3)
    with pytest.raises(Exception, match="must match|broadcast"):
        compiled(torch.ones(6, 4, dtype=torch.float64))
    check(compiled, FORMS["chunk"], 2)


def test_get_code_of_what_is_compiled_for_all_sizes_shows_that():
    torch._dynamo.reset()
    x = torch.ones(3, 4, dtype=torch.float64)
    compiled = torch.compile(FORMS["chunk"], backend="kiln", dynamic=True)
    assert "f64 [s0, s1]" in kiln.get_code(compiled, x)[0]
    assert "f64 [3, 4]" in kiln.get_code(FORMS["chunk"], x)[0]
