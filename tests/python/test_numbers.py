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
