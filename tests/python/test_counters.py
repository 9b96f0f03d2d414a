"""kiln.counters: what passes replaced, counted by each artifact that is taken, new or cached."""

from unittest import mock

import pytest
import torch
import torch.nn.functional as F

import kiln
from kiln import _native
from kiln.compiled_graph import count_compile
from kiln.counters import add_artifact
from processes import ctl

PASSES = ("pattern_matches", "scatter_upon_const_tensor")


def counted(fn, *args, backward=False):
    """What a call compiled anew by Dynamo adds to the counters of passes, and its result."""
    torch._dynamo.reset()
    kiln.counters.clear()
    got = torch.compile(fn, backend="kiln", fullgraph=True)(*args)
    if backward:
        got.backward()
    torch.testing.assert_close(got, fn(*args), rtol=1e-4, atol=1e-4)
    return tuple(kiln.counters[name] for name in PASSES)


def scatter(base, dim, index, value=2.718):
    return lambda: torch.scatter(base(), dim, index, value)


def rows(*sizes, below):
    return torch.randint(0, below, sizes)


ON_CONSTANTS = {
    "three_dimensions": scatter(lambda: torch.full((2, 16, 8), 3.14), 2, rows(2, 16, 1, below=8)),
    "not_the_last_dimension": scatter(lambda: torch.zeros(16, 8), 0, rows(1, 8, below=16)),
    "a_dimension_from_the_end": scatter(lambda: torch.zeros(16, 8), -1, rows(16, 1, below=8)),
    "ones": scatter(lambda: torch.ones(16, 8), 1, rows(16, 1, below=8)),
    "integers": scatter(lambda: torch.full((16, 8), 3), 1, rows(16, 1, below=8), 5),
    "one_dimension": scatter(lambda: torch.zeros(8), 0, rows(1, below=8)),
}


@pytest.mark.parametrize("name", ON_CONSTANTS)
def test_a_scatter_upon_a_constant_is_counted(name):
    assert counted(ON_CONSTANTS[name]) == (1, 1)


def test_two_scatters_upon_one_constant_are_two():
    i, j = rows(16, 1, below=8), rows(1, 8, below=16)

    def fn():
        base = torch.zeros(16, 8)
        return torch.scatter(base, 1, i, 2.5) + torch.scatter(base, 0, j, 1.5)

    assert counted(fn) == (2, 2)


def test_a_scatter_that_stays_one_is_not_counted():
    table, source = torch.randn(16, 8), torch.ones(16, 1)
    short, dense, one = rows(4, 1, below=8), rows(16, 8, below=8), rows(16, 1, below=8)
    for fn in (
        scatter(lambda: torch.zeros(16, 8), 1, short),
        scatter(lambda: torch.zeros(16, 8), 1, dense),
        scatter(lambda: table * 2, 1, one),
        lambda: torch.scatter(torch.zeros(16, 8), 1, one, source),
    ):
        assert counted(fn) == (0, 0)


def test_the_backward_of_a_cross_entropy_scatters_upon_a_constant():
    weight = torch.randn(50, 12, requires_grad=True)
    x, y = torch.randn(32, 12), torch.randint(0, 50, (32,))
    found = counted(lambda: F.cross_entropy(F.linear(x, weight), y), backward=True)
    assert found[1] == 1


def test_a_product_with_what_follows_it_is_a_pattern():
    x, w, b = torch.randn(4, 8), torch.randn(8, 3), torch.randn(3)
    assert counted(lambda x: torch.relu(x @ w + b), x) == (1, 0)
    assert counted(lambda x: torch.sin(x) @ w, x) == (0, 0)


def test_a_cache_hit_counts_what_its_compile_did():
    index = rows(24, 1, below=6)
    fn = scatter(lambda: torch.full((24, 6), 1.25), 1, index, 0.75)
    assert counted(fn) == (1, 1)
    assert counted(fn) == (1, 1)
    assert (kiln.counters["compiles"], kiln.counters["cache_hit"]) == (0, 1)
    kiln.counters.clear()
    assert [kiln.counters[name] for name in PASSES] == [0, 0]


def served(served_from):
    """What count_compile adds for a graph that was come by so."""
    report = {"served_from": served_from, "by_local_worker": 0}
    kiln.counters.clear()
    with mock.patch.object(_native, "report", lambda _: report):
        with mock.patch.object(_native, "text", lambda *_: ""):
            count_compile(None)
    return tuple(kiln.counters[name] for name in ("compiles", "cache_hit", "cache_miss"))


def test_a_miss_is_what_the_cache_had_not():
    assert served(1) == (0, 1, 0)  # from the cache
    assert served(2) == (1, 0, 1)  # compiled for us
    assert served(3) == (0, 0, 1)  # for another who had asked before


def test_hits_and_misses_are_those_of_the_daemon():
    def lookups():
        found = ctl("stats")["counters"]
        return int(found["jobs.started"]), int(found["cache.hits"])

    def fn(x):
        return (x * 1.515625).cos() - 0.25

    x = torch.ones(7)
    jobs, hits = lookups()
    for due in ((1, 0), (1, 1), (1, 2)):
        torch._dynamo.reset()
        if due == (1, 0):
            kiln.counters.clear()
        torch.compile(fn, backend="kiln")(x)
        assert (kiln.counters["cache_miss"], kiln.counters["cache_hit"]) == due
        now_jobs, now_hits = lookups()
        assert (now_jobs - jobs, now_hits - hits) == due


def test_the_counters_that_were_asked_for_are_there_and_padding_is_none():
    x, w = torch.randn(5, 7), torch.randn(7, 3)
    counted(lambda x: torch.relu(x @ w), x)
    assert kiln.counters["scatter_upon_const_tensor"] == 0 != kiln.counters["pattern_matches"]
    assert kiln.counters["inplace_padding"] == kiln.metrics.num_comprehensive_padding == 0
    compiled = kiln.counters["cache_miss"] + kiln.counters["cache_hit"]
    assert compiled == 1 and kiln.counters["compiles"] <= 1 and kiln.counters["recompiles"] == 0
    add_artifact("inplace_padding 2\npattern_matches 0\n")
    assert kiln.counters["inplace_padding"] == 2
    kiln.counters.clear()


TINY = {
    "batch_of_one": (torch.bmm, [(1, 2, 2), (1, 2, 2)], "decompose_bmm", 1, 3),
    "batch_of_two": (torch.bmm, [(2, 2, 2), (2, 2, 2)], "decompose_bmm", 0, 0),
    "one_row": (torch.mm, [(1, 64), (64, 16)], "decompose_mm", 1, 2),
    "two_rows": (torch.mm, [(2, 64), (64, 16)], "decompose_mm", 0, 0),
    "one_row_and_a_bias": (F.linear, [(1, 64), (16, 64), (16,)], "decompose_addmm", 1, 1),
}


@pytest.mark.parametrize("name", TINY)
def test_tiny_products_that_became_loops_are_counted_as_inductor_counts_them(name):
    fn, sizes, counter, forward, both = TINY[name]
    inputs = [torch.randn(size) for size in sizes]
    for number, learns in ((forward, False), (both, True)):
        torch._dynamo.reset()
        given = [x.clone().requires_grad_(learns) for x in inputs]
        kiln.counters.clear()
        got = torch.compile(fn, backend="kiln", fullgraph=True)(*given)
        if learns:
            got.sum().backward()
        torch.testing.assert_close(got, fn(*inputs), rtol=1e-4, atol=1e-4)
        assert kiln.counters[counter] == number
