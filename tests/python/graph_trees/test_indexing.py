"""Indexing operators, also under deterministic algorithms: section 14.11 of the fact sheet."""

import pytest
import torch

from trees import graphs, recordings, skips

ROWS, PLACES = 8, [1, 3, 3, 6]


def _operators():
    def put(x, i, v):
        return x.index_put((i,), v)

    def put_adding(x, i, v):
        return x.index_put((i,), v, accumulate=True)

    return {
        "index_put": put,
        "index_put_accumulate": put_adding,
        "index_add": lambda x, i, v: x.index_add(0, i, v),
        "index_copy": lambda x, i, v: x.index_copy(0, i, v),
        "index_fill": lambda x, i, v: x.index_fill(0, i, 3.0),
        "scatter": lambda x, i, v: x.scatter(0, i[:, None].expand_as(v), v),
        "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand_as(v), v),
        "scatter_reduce": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand_as(v), v, "amax"),
    }


OPERATORS = _operators()
# Of equal places it is not said which wins.
_ONE_WINS = {"index_put", "index_copy", "scatter"}


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_cudagraph_indexing_ops(name, deterministic):
    places = sorted(set(PLACES)) if name in _ONE_WINS else PLACES
    x = torch.rand(ROWS, 4, device="cuda")
    index = torch.tensor(places, device="cuda")
    values = torch.rand(len(places), 4, device="cuda")
    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(deterministic)
    try:
        due = OPERATORS[name](x, index, values)
        called = graphs(OPERATORS[name])
        for _ in range(3):
            torch.testing.assert_close(called(x, index, values), due)
        assert skips() >= 1 or recordings() >= 1
    finally:
        torch.use_deterministic_algorithms(was)
