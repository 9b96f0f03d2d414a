"""Operators of a joint graph that compute the same are computed, and saved, once."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from kiln.common_subexpressions import merge_equal


def merged(fn, *inputs):
    """The names of the operators left of `fn`, whose results stay what they were."""
    module = make_fx(fn, tracing_mode="fake")(*inputs)
    merge_equal(module.graph)
    module.graph.lint()
    module.recompile()
    torch.testing.assert_close(module(*inputs), fn(*inputs), equal_nan=True)
    called = [node.target for node in module.graph.nodes if node.op == "call_function"]
    return [getattr(target, "_opname", target.__name__) for target in called]


X = torch.randn(4, 3)


def test_equal_operators_and_what_reads_them_become_one():
    assert merged(lambda x: (x.sin() + 1).exp() * (x.sin() + 1).exp(), X).count("sin") == 1
    assert merged(lambda x: x.T.sum() * x.T.sum(), X) == ["permute", "sum", "mul"]


def test_arguments_of_other_types_or_signs_differ():
    names = merged(lambda x: x.long().add(1) * x.long().add(True) + x.long().sub(1), X)
    assert names.count("_to_copy") == 1 and names.count("add") == 3
    assert merged(lambda x: (x / 0.0).exp() * (x / -0.0).exp(), X).count("div") == 2


def test_random_numbers_stay_apart():
    module = make_fx(lambda x: torch.rand_like(x) - torch.rand_like(x))(X)
    merge_equal(module.graph)
    module.recompile()
    assert module(X).count_nonzero() > 0


def test_memory_that_is_filled_later_stays_apart():
    def fn(x):
        one, two = torch.empty_like(x), torch.empty_like(x)
        return one.fill_(1) + two.fill_(2)

    assert merged(fn, X).count("empty_like") == 2


def test_results_that_are_two_tensors_stay_two():
    assert merged(lambda x: (x + 1, x + 1), X).count("add") == 2
    assert merged(lambda x: (x.sort().values, x.sort().values), X).count("sort") == 2
    one, two = torch.compile(lambda x: (x.sin() * 2, x.sin() * 2), backend="kiln")(X)
    assert one.data_ptr() != two.data_ptr()


def test_what_is_read_after_a_write_is_not_what_was_read_before():
    def fn(x):
        x = x.clone()
        before = x.sin()
        x.add_(1)
        return before + x.sin()

    assert merged(fn, X).count("sin") == 2
