"""Python numbers that change from call to call: where operators compute with them, and where what is
compiled has to know them."""

import pytest
import torch
import torch.nn.functional as F

import kiln

PLACES = torch.tensor([1, 2])

# Dynamo asks for one graph of all, whatever k is.
COMPUTED_WITH = {
    "a power": lambda x, i, k: (i**k, x**k, torch.pow(k, x.abs())),
    "a divisor": lambda x, i, k: (i // k, i % k, i / k, x.fmod(k)),
    "a fill": lambda x, i, k: (torch.full((3,), k), x.masked_fill(x > 0, k), x.clamp(-k, k)),
    "a range": lambda x, i, k: (torch.arange(0, k), torch.linspace(0, k, 5), torch.eye(k)),
    "an end": lambda x, i, k: (x[k:], x[:k], x[k], x.narrow(0, k, 1), x.topk(k).values),
}
KNOWN = {
    "a factor": lambda x, i, k: (
        i.add(i, alpha=k),
        torch.rsub(x, x, alpha=k),
        torch.addcmul(x, x, x, value=k),
        torch.addmm(x[:, None], x[:, None], x[None], alpha=k, beta=k),
        x.index_add(0, PLACES, x[:2], alpha=k),
    ),
    "what is written": lambda x, i, k: (
        x.scatter(0, PLACES, k),
        torch.full((6,), k).scatter(0, PLACES, 7),
        torch.full((6,), k).scatter_add(0, PLACES, PLACES),
        x.index_fill(0, PLACES, k),
        F.pad(x, (1, 2), value=k),
    ),
    "a slope": lambda x, i, k: (
        F.leaky_relu(x, k),
        F.threshold(x, 0.5, k),
        F.elu(x, k),
        F.celu(x, k),
        F.softplus(x, k),
        F.hardshrink(x, k),
        F.hardtanh(x, -k, k),
    ),
    "a turn": lambda x, i, k: (x.roll(k), x.roll(k, 0), i[None].roll((k, 1), (1, 0))),
    "a correction": lambda x, i, k: (x.var(correction=k), x.std(correction=k)),
}


@pytest.mark.parametrize("name", [*COMPUTED_WITH, *KNOWN])
def test_a_number_that_changes_is_taken_as_it_is_in_each_call(name):
    def fn(x, i, k):  # the first operator keeps k a symbol
        return (i * k, *use(x, i, k))

    use = (COMPUTED_WITH | KNOWN)[name]
    called = torch.compile(fn, backend="kiln", fullgraph=True)
    x, i = torch.randn(6), torch.randint(-9, 9, (6,))
    for k in (3, 4, 2, 5):
        torch.testing.assert_close(called(x, i, k), fn(x, i, k))


@pytest.mark.parametrize("name", KNOWN)
def test_a_number_that_a_size_gives_is_compiled_as_it_is_in_each_call(name):
    def fn(x, i, s):
        return KNOWN[name](x, i, s.shape[0])

    called = torch.compile(fn, backend="kiln", fullgraph=True)
    x, i = torch.randn(6), torch.randint(-9, 9, (6,))
    kiln.counters.clear()
    for k in (3, 4, 2, 5):
        s = torch.ones(k, 2)
        torch._dynamo.maybe_mark_dynamic(s, 0)
        torch.testing.assert_close(called(x, i, s), fn(x, i, s))
    assert kiln.counters["host_kernels"] == 0


def with_column(x, k):
    x[:, k] = x[:, 0] * 10
    return x


PLACED = {
    "select_scatter": lambda x, k: torch.select_scatter(x, x[:, 1] * 10, 1, k),
    "select": lambda x, k: x.select(1, k) + 1,
    "slice_scatter": lambda x, k: torch.slice_scatter(x, x[:, :1] * 10, 1, k, k + 1 or None),
    "a written column": lambda x, k: with_column(x.clone(), k),
    "diagonal_scatter": lambda x, k: torch.diagonal_scatter(x, x.diagonal(k) * 10, k),
    "roll": lambda x, k: x.roll(k, 1),
    "triu": lambda x, k: x.triu(k) + x.tril(-k),
}


@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("order", [(2, 1, -1, -2, 0), (-2, 1, 0, -1, 2)], ids=["front", "back"])
def test_a_place_from_either_end_is_where_it_is_in_each_call(name, order):
    def fn(x, s):
        return PLACED[name](x, s.shape[0] - 4)

    called = torch.compile(fn, backend="kiln", dynamic=True)
    x = torch.randn(4, 5, requires_grad=True)
    for k in order:
        s = torch.ones(4 + k, 2)
        got, due = called(x, s), fn(x, s)
        torch.testing.assert_close(got, due)
        weight = torch.randn_like(due)
        torch.testing.assert_close(*(torch.autograd.grad((y * weight).sum(), x) for y in (got, due)))


@pytest.mark.parametrize("k", [2**53 + 1, -(2**60) - 3])
def test_no_digit_of_an_integer_is_lost(k):
    def fn(z):
        return (
            z.add(z, alpha=k),
            z.sub(z, alpha=k),
            torch.rsub(z, z, alpha=k),
            z.scatter(0, PLACES, k),
            z.index_add(0, PLACES, z[:2] + 1, alpha=k),
            torch.addcmul(z, z, z, value=k),
            z.index_fill(0, PLACES, k),
            z.where(z > 3, k),
            F.pad(z, (1, 1), value=k),
        )

    z = torch.arange(12)
    torch.testing.assert_close(torch.compile(fn, backend="kiln")(z), fn(z), rtol=0, atol=0)


def test_a_size_is_a_number_found_in_data_that_was_no_integer():
    def up_to_the_largest(x):
        return torch.arange(int(x.max().item())) + 1

    def some_of(x):
        return (x * 2)[: int(x.sum().item() / 2)] + x.max().item()

    kiln.counters.clear()
    for fn in (up_to_the_largest, some_of):
        called = torch.compile(fn, backend="kiln")
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            for top in (5.5, 3.0, 6.25):
                x = torch.tensor([1.0, 2.5, 2.0, top])
                torch.testing.assert_close(called(x), fn(x))
    assert kiln.counters["eager_graphs"] == 0


def test_a_product_and_a_sum_that_are_rounded_once_stay_so():
    """The operator that Dynamo of torch 2.15 writes for addcmul_ and addcdiv_ with a value."""
    from torch._inductor.inductor_prims import fma

    x = torch.full((3,), 1 + 2.0**-12)
    told = kiln.explain(lambda a, b, c: fma(a, b, c), x, x, -x * x)
    assert not told.host_kernels
    called = torch.compile(lambda a, b, c: fma(a, b, c), backend="kiln", fullgraph=True)
    assert torch.equal(called(x, x, -x * x), torch.full((3,), 2.0**-24))
    many, row = torch.randn(4, 5, dtype=torch.bfloat16), torch.randn(5, dtype=torch.bfloat16)
    due = (many.double() * row.double() + many.double()).bfloat16()
    assert torch.equal(called(many, row, many), due)


def test_an_update_with_a_number_is_no_host_kernel():
    def update(x, y, z):
        x = x.clone()
        return x.addcmul_(y, z, value=0.5), x.clone().addcdiv_(y, z, value=-0.25)

    inputs = torch.randn(7), torch.randn(7), torch.rand(7) + 1
    assert not kiln.explain(update, *inputs).host_kernels
    got = torch.compile(update, backend="kiln", fullgraph=True)(*inputs)
    torch.testing.assert_close(got, update(*inputs))
