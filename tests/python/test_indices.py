"""Indices that come from data: inside they count as in eager mode, outside they are an error."""

import re

import pytest
import torch
import torch.nn.functional as F

from processes import answer_of, start

SIZE = 5
# What eager mode lets through, and what it does not; those of the first count from the end, too.
WRAPPED = {
    "index": lambda x, i, v: x[i] * 2,
    "index_two": lambda x, i, v: x[i, i] * 2,
    "index_last": lambda x, i, v: x[:, i] * 2,
    "index_put": lambda x, i, v: x.index_put((i,), v) * 2,
    "index_put_add": lambda x, i, v: x.index_put((i,), v, accumulate=True) * 2,
    "take": lambda x, i, v: x.diagonal().contiguous().take(i) * 2,
    "index_fill": lambda x, i, v: x.index_fill(0, i, 3.0) * 2,
    "put": lambda x, i, v: x.diagonal().contiguous().put(i, v[:, 0]) * 2,
}
PLAIN = {
    "index_select": lambda x, i, v: x.index_select(0, i) * 2,
    "gather": lambda x, i, v: x.gather(1, i.expand(SIZE, -1)) * 2,
    "scatter": lambda x, i, v: x.scatter(0, i[:, None].expand(-1, SIZE), v) * 2,
    "scatter_value": lambda x, i, v: x.scatter(0, i[:, None], 3.0) * 2,
    "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand(-1, SIZE), v) * 2,
    "scatter_amax": lambda x, i, v: x.scatter_reduce(
        0, i[:, None].expand(-1, SIZE), v, "amax"
    ),
    "index_add": lambda x, i, v: x.index_add(0, i, v) * 2,
    "index_reduce": lambda x, i, v: x.index_reduce(0, i, v, "prod") * 2,
    "index_copy": lambda x, i, v: x.index_copy(0, i, v) * 2,
    "embedding": lambda x, i, v: F.embedding(i, x) * v,
    "embedding_bag": lambda x, i, v: F.embedding_bag(i, x, torch.tensor([0, 1]), mode="sum"),
    "cross_entropy": lambda x, i, v: F.cross_entropy(x[:3], i),
    "nll_loss": lambda x, i, v: F.nll_loss(x[:3] * 2, i, reduction="none"),
    "max_unpool2d": lambda x, i, v: F.max_unpool2d(
        x[None, :1, :3, None] * 2, (i * 2)[None, None, :, None], 2, output_size=(5, 2)
    ),
}
ALL = {**WRAPPED, **PLAIN}
# Written as indexing, which counts from the end where eager mode does not.
COUNTS_FROM_THE_END = {"index_copy", "embedding_bag"}
# Reductions over what is written have no gradient that all versions of PyTorch agree on.
NO_GRADIENT = {"scatter_amax", "index_reduce"}


def table():
    return torch.linspace(-1, 2, SIZE * SIZE).reshape(SIZE, SIZE)


def values():
    return torch.linspace(3, 4, 3 * SIZE).reshape(3, SIZE)


def indices(*numbers):
    return torch.tensor(numbers)


def assert_as_eager(compiled, fn, i, gradient):
    results = []
    for called in (compiled, fn):
        x, v = table().requires_grad_(gradient), values().requires_grad_(gradient)
        y = called(x, i, v)
        if gradient:
            y.square().sum().backward()
        results.append((y.detach(), x.grad, v.grad))
    torch.testing.assert_close(*results)


def assert_refused(compiled, i, gradient=False):
    x, v = table().requires_grad_(gradient), values().requires_grad_(gradient)
    with pytest.raises(IndexError, match=r"kiln_\w+: index out of bounds: index -?\d+ of a"):
        compiled(x, i, v)


@pytest.mark.parametrize(
    ("name", "gradient"),
    [(name, False) for name in ALL] + [(name, True) for name in ALL if name not in NO_GRADIENT],
)
def test_an_index_out_of_bounds_is_an_error_and_the_next_call_is_right(name, gradient):
    fn = ALL[name]
    compiled = torch.compile(fn, backend="kiln")
    good = indices(0, 4, 2)
    assert_as_eager(compiled, fn, good, gradient)
    for bad in (SIZE, 100_000_000, -SIZE - 1, -100_000_000):
        assert_refused(compiled, indices(0, bad, 2), gradient)
    assert_as_eager(compiled, fn, good, gradient)


@pytest.mark.parametrize("name", WRAPPED)
def test_a_negative_index_counts_from_the_end(name):
    fn = WRAPPED[name]
    assert_as_eager(torch.compile(fn, backend="kiln"), fn, indices(-1, -SIZE, 1), True)


@pytest.mark.parametrize("name", [name for name in PLAIN if name not in COUNTS_FROM_THE_END])
def test_a_negative_index_is_out_of_bounds_where_it_is_in_eager_mode(name):
    assert_refused(torch.compile(PLAIN[name], backend="kiln"), indices(0, -1, 2))


@pytest.mark.parametrize("name", ["index", "index_put", "gather", "scatter", "embedding"])
def test_sizes_and_widths_of_indices_may_vary(name):
    fn = ALL[name]
    compiled = torch.compile(fn, backend="kiln", dynamic=True)
    assert_as_eager(compiled, fn, indices(0, 4, 2), False)
    assert_refused(compiled, indices(0, SIZE, 2))
    if name in ("index", "embedding"):
        assert_as_eager(compiled, fn, indices(0, 4, 2).int(), False)
        assert_refused(compiled, indices(0, SIZE, 2).int())


def test_one_of_many_indices_is_found_by_whichever_thread_meets_it():
    i = torch.arange(200_000) % 1000
    x = torch.randn(1000, 4)
    compiled = torch.compile(lambda x, i: x[i].exp(), backend="kiln")
    torch.testing.assert_close(compiled(x, i), x[i].exp())
    for place in (0, 77_777, 199_999):
        wrong = i.clone()
        wrong[place] = 1000
        with pytest.raises(IndexError, match="index 1000 of a dimension of size 1000"):
            compiled(x, wrong)
    torch.testing.assert_close(compiled(x, i), x[i].exp())


def test_an_index_of_a_dimension_that_is_empty_is_out_of_bounds():
    compiled = torch.compile(lambda x, i: x[i] + 1, backend="kiln")
    assert compiled(torch.ones(0, 4), indices().long()).shape == (0, 4)
    with pytest.raises(IndexError, match="size 0"):
        compiled(torch.ones(0, 4), indices(0))


def test_what_a_refused_call_would_have_written_is_as_it_was():
    def fn(x, i, v):
        x[i] = v
        return x.sum()

    compiled = torch.compile(fn, backend="kiln")
    x = table()
    with pytest.raises(IndexError):
        compiled(x, indices(0, SIZE, 2), values())
    torch.testing.assert_close(x, table())


@pytest.mark.parametrize(
    "fn",
    [lambda w, i: F.embedding(i, w), lambda w, i: w[i], lambda w, i: w.index_select(0, i)],
    ids=["embedding", "index", "index_select"],
)
def test_the_backward_pass_looks_as_well(fn):
    compiled = torch.compile(fn, backend="kiln")
    w, i = table().requires_grad_(), indices(0, 4, 2)
    y = compiled(w, i)
    i.data[1] = 100_000_000  # what is saved for the backward pass is the caller's own tensor
    with pytest.raises(IndexError, match="index out of bounds"):
        y.sum().backward()
    fresh = table().requires_grad_()
    compiled(fresh, indices(0, 4, 2)).sum().backward()
    assert fresh.grad.sum() == 3 * SIZE


def test_an_ignored_target_is_no_index():
    target = indices(1, -100, 4)
    compiled = torch.compile(F.cross_entropy, backend="kiln")
    torch.testing.assert_close(compiled(table()[:3], target), F.cross_entropy(table()[:3], target))


ON_A_GPU = """
import json, sys, torch
def fn(x, i, v):
    return %s
x, v = torch.ones(4, 4, device="cuda"), torch.ones(2, 4, device="cuda")
compiled = torch.compile(fn, backend="kiln")
good = compiled(x, torch.tensor([0, 3], device="cuda"), v)
torch.cuda.synchronize()
try:
    compiled(x, torch.tensor([0, 100_000_000], device="cuda"), v)
    torch.cuda.synchronize()
except RuntimeError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize(
    "text",
    ["x[i] + 1", "x.gather(1, i.expand(4, -1))", "x.index_put((i,), v)", "x.index_add(0, i, v)"],
)
def test_a_gpu_stops_with_a_device_side_assert(text):
    said, errors = answer_of(start(ON_A_GPU % text))
    assert "device-side assert" in said, said
    told = r"kiln_\w+: .*out of bounds: index 100000000 of a dimension of size 4, in [\w+]*(index|gather)"
    assert re.search(told, errors), errors
