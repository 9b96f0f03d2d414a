"""Which results are one memory: those that are one in eager mode, and no others."""

import pytest
import torch
import torch.nn.functional as F

import kiln


def sharing(results, inputs):
    """For each result the first tensor, results before inputs, whose memory it has."""
    places = [t.untyped_storage().data_ptr() for t in (*inputs, *results)]
    return [places.index(r.untyped_storage().data_ptr()) for r in results]


CASES = {
    "equal sums": lambda x: (x + 1, x + 1, x + 1),
    "two copies": lambda x: (x.clone(), x.clone()),
    "a copy of a result": lambda x: (lambda y: (y, y.clone()))(x + 1),
    "equal fills": lambda x: (torch.zeros(3), torch.zeros(3), torch.zeros_like(x)),
    "equal reductions": lambda x: (x.sum(0), x.sum(0), x.mean(1)),
    "two forms of one mean": lambda x: (
        F.adaptive_avg_pool2d(x[None], 1),
        x[None].mean((1, 2), keepdim=True),
    ),
    "a roll by nothing": lambda x: (x.roll(0, 1), x.roll(8, 0), x.sin().roll(4, 0)),
    "nothing added": lambda x: (x + 0, x * 1, x.clone(), x**1),
    "nothing changed": lambda x: (x.flip(()), x.repeat(1, 1), x.triu(-9), F.pad(x, (0, 0))),
    "one result twice": lambda x: (lambda y: (y, y, y.t()))(x + 1),
    "views of equal results": lambda x: (x.sin(), x.sin().t(), x.t()),
}


@pytest.mark.parametrize("gradients", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("case", CASES)
def test_results_share_memory_where_they_do_in_eager_mode(case, gradients):
    fn = CASES[case]
    x = torch.randn(4, 4, requires_grad=gradients)
    due, got = fn(x), torch.compile(fn, backend="kiln", fullgraph=True)(x)
    assert sharing(got, [x]) == sharing(due, [x])
    # What is written to one of them is seen where it is in eager mode.
    with torch.no_grad():
        for number, (a, b) in enumerate(zip(got, due)):
            if a.data_ptr() != x.data_ptr():
                a.mul_(number + 2)
                b.mul_(number + 2)
    torch.testing.assert_close(got, due)


def test_a_second_memory_of_equal_values_costs_no_second_kernel():
    fn = torch.compile(lambda x: (x.sin() * 2, x.sin() * 2), backend="kiln", fullgraph=True)
    kiln.metrics.reset()
    fn(torch.randn(64))
    assert kiln.metrics.launch_count == kiln.metrics.generated_kernel_count == 1


def test_a_result_that_was_an_input_keeps_its_values_when_the_input_is_written():
    def step(x):
        y = x.roll(0, 0)
        x.add_(1)
        return y

    x = torch.randn(5)
    due = x.clone()
    y = torch.compile(step, backend="kiln", fullgraph=True)(x)
    assert torch.equal(y, due) and torch.equal(x, due + 1)
