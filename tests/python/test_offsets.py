"""Tensors that lie somewhere in a storage: inputs that are batches, halves and windows of a larger
tensor, or overlap there, and results that are in one."""

import pytest
import torch
from torch import nn

import kiln
from kiln.compiled_graph import recording


def compiled(fn, **options):
    return torch.compile(fn, backend="kiln", fullgraph=True, **options)


def assert_same(got, due):
    torch.testing.assert_close(got, due, rtol=1e-5, atol=1e-5)


STORE = torch.linspace(-2, 2, 400)


def chunks(parts, rows, *dims):
    return torch.linspace(-1, 1, rows * 12 * parts).view(rows * parts, 12).chunk(parts, *dims)


# {name: (what is compiled, its arguments for each call)}
VIEWS = {
    "batches": (
        lambda x: x.tanh() * 2,
        [(STORE[i : i + n],) for i, n in ((0, 8), (8, 7), (15, 5), (37, 20), (101, 9))],
    ),
    "halves": (
        lambda x, y: x * 2 + y,
        [(STORE[:n], STORE[n : 2 * n]) for n in (4, 5, 6, 20)],
    ),
    "unequal": (
        lambda x, y: x * 2 + y.sum(),
        [(STORE[:n], STORE[n : n + k]) for n, k in ((4, 3), (5, 9), (6, 2), (20, 7))],
    ),
    "rows": (lambda a, b: (a * b).sum(0), [chunks(2, n) for n in (4, 5, 6)]),
    "columns": (lambda q, k, v: q * k + v, [chunks(3, n, 1) for n in (4, 5, 6)]),
    "qkv": (lambda q, k, v: torch.softmax(q @ k.T, -1) @ v, [chunks(3, n) for n in (4, 5, 6)]),
    "cache": (
        lambda new, old: torch.cat([old, new]).mean(0),
        [(STORE.view(20, 20)[n : n + 1], STORE.view(20, 20)[2:n]) for n in (4, 5, 6, 9)],
    ),
}


@pytest.mark.parametrize("dynamic", [True, None], ids=["dynamic", "automatic"])
@pytest.mark.parametrize("fn, calls", VIEWS.values(), ids=VIEWS)
def test_views_at_any_offset_are_served_by_the_graphs_of_the_first_ones(fn, calls, dynamic):
    called = compiled(fn, dynamic=dynamic)
    kiln.counters.clear()
    with recording() as graphs:
        for args in calls:
            assert_same(called(*args), fn(*args))
        first = len(graphs)
        # Graphs are dynamic after the second size; the third may need one for offsets that are not.
        assert first <= (2 if dynamic else 3)
        for args in calls[1:]:
            assert_same(called(*args), fn(*args))
    assert len(graphs) == first
    assert kiln.counters["eager_graphs"] == 0
    assert not any(graph.hosts for graph in graphs)


def test_views_at_any_offset_train():
    layer = nn.Linear(12, 3)

    def loss(a, b):
        return (layer(a).tanh() * b[:, :3]).square().sum()

    called = compiled(loss, dynamic=True)
    with recording() as graphs:
        for n in (4, 5, 6):
            a, b = chunks(2, n)
            due = torch.autograd.grad(loss(a, b), layer.parameters())
            assert_same(torch.autograd.grad(called(a, b), layer.parameters()), due)
    assert len(graphs) == 2  # forward, backward


def test_batches_at_other_offsets_have_one_artifact():
    fn = lambda x: torch.sin(x) * 0.4375  # noqa: E731
    kiln.counters.clear()
    for start in (0, 80, 240):
        torch._dynamo.reset()
        assert_same(compiled(fn)(STORE[start : start + 80]), fn(STORE[start : start + 80]))
    assert kiln.counters["compiles"] == 1


# What counts from the storage's start: {name: what is compiled, of a view and its offset}
WINDOWS = {
    "same": lambda x: x.as_strided((3, 2), (2, 1), x.storage_offset()) * 2,
    "later": lambda x: x.as_strided((3,), (2,), x.storage_offset() + 1) + x.sum(),
    "before": lambda x: x.as_strided((3,), (1,), x.storage_offset() - 2) + x.sum(),
    "first": lambda x: x.as_strided((3,), (1,), 1) + x.sum(),
    "written": lambda x: torch.as_strided_scatter(
        x * 1, torch.ones(3), (3,), (1,), x.storage_offset() * 0 + 1
    ),
}


@pytest.mark.parametrize("fn", WINDOWS.values(), ids=WINDOWS)
def test_a_window_is_where_eager_mode_has_it_in_the_storage(fn):
    called = compiled(fn, dynamic=True)
    for start, size in ((7, 8), (9, 8), (21, 9), (40, 12)):
        x = STORE[start : start + size]
        assert_same(called(x), fn(x))
    assert kiln.counters["eager_graphs"] == 0


def written(x, y):
    x.add_(1)
    y.mul_(3)
    return x + y


def assert_writes(called, take):
    mine, due = torch.arange(10.0), torch.arange(10.0)
    assert_same(called(*take(mine)), written(*take(due)))
    assert_same(mine, due)


def parts(first, second):
    return lambda b: (b[slice(*first)], b[slice(*second)])


OVERLAPPING, OTHERS, APART, ALL = (
    parts(*each)
    for each in (((6,), (4, 10)), ((5,), (3, 8)), ((4,), (4, 8)), ((5,), (5, 10)))
)
OVERLAPS = {
    "sizes": [OVERLAPPING, OTHERS],
    "apart_then_not": [APART, ALL, OTHERS],
    "not_then_apart": [OTHERS, APART, ALL],
}


@pytest.mark.parametrize("strict", ["0", "1"])
@pytest.mark.parametrize("takes", OVERLAPS.values(), ids=OVERLAPS)
def test_inputs_that_overlap_are_written_in_eager_modes_order(takes, strict, monkeypatch):
    monkeypatch.setenv("KILN_STRICT", strict)
    called = compiled(written)
    for take in takes:
        assert_writes(called, take)


@pytest.mark.parametrize("dynamic", [None, True], ids=["fixed", "dynamic"])
def test_a_cached_graph_of_separate_inputs_serves_none_that_share_memory(dynamic):
    for take in (lambda b: (b, b * 1), lambda b: (b, b[:]), ALL, OTHERS, ALL):
        torch._dynamo.reset()  # and traces anew, or finds it in AOTAutograd's cache
        assert_writes(compiled(written, dynamic=dynamic), take)


def of_one(fn):
    """`fn`, of a tensor that is made in the graph."""
    return lambda x: fn(x.sin())


# {name: (what is compiled, the operators that are left to PyTorch)}
RESULTS = {
    "whole": (of_one(lambda z: (z, z[1:], z.t())), set()),
    "parts": (of_one(lambda z: (z[0], z[1:], z.view(-1)[5:])), set()),
    "several": (lambda x: (lambda y, z: (y, z[2:], z, y[1:]))(x.sin(), x.cos()), set()),
    "picked": (of_one(lambda z: z.split(2, 1) + z.unbind(1)), set()),
    "read": (of_one(lambda z: (z, z[1:], z[1:] * 2, z[1:].t() + z[0, 0])), set()),
    "apart": (lambda x: (x.max(0)[0], x.max(0)[1], x.sum(1), x.sum(1, True), x.sum(1)[1:]), set()),
    "one": (of_one(lambda z: (z[1:].t() * 2, z.clone(), z)), set()),
    "host": (
        lambda x: (lambda z: (z, z[1:], z[0] * 2))((x.T @ x / 9).matrix_exp()),
        {"linalg_matrix_exp"},
    ),
}


def storage_of(tensor):
    return tensor.untyped_storage().data_ptr()


def assert_same_storages(got, due):
    """Equal numbers and layouts, and whatever shares a storage in `due` shares one in `got`."""
    assert_same(got, due)
    for mine, wanted in zip(got, due, strict=True):
        assert mine.stride() == wanted.stride()
        beside = [storage_of(each) == storage_of(wanted) for each in due]
        assert [storage_of(each) == storage_of(mine) for each in got] == beside
        if sum(beside) > 1:
            assert mine.storage_offset() == wanted.storage_offset()
            assert mine.untyped_storage().nbytes() == wanted.untyped_storage().nbytes()


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("fn, left", RESULTS.values(), ids=RESULTS)
def test_results_share_storages_as_eager_modes_do(fn, left, dynamic):
    called = compiled(fn, dynamic=dynamic)
    with recording() as graphs:
        for x in (torch.randn(6, 4), torch.randn(9 if dynamic else 6, 4)):
            assert_same_storages(called(x), fn(x))
    (graph,) = graphs
    assert graph.segments == 1 + len(left) and graph.hosts.keys() == left


def test_results_with_gradients_share_storages():
    fn = RESULTS["read"][0]
    x = torch.randn(3, 4, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    got, due = compiled(fn)(x), fn(y)
    assert_same_storages(got, due)
    sum(each.square().sum() for each in got).backward()
    sum(each.square().sum() for each in due).backward()
    assert_same(x.grad, y.grad)
