"""kiln.recompile_reasons: what was compiled again, a frame or a graph, and what guard failed."""

import collections
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F

import kiln
from kiln.recompiles import Recompile


def new_reasons(before):
    # Graphs of tests before may go meanwhile.
    return list((collections.Counter(kiln.recompile_reasons()) - collections.Counter(before)).elements())


def test_a_frame_that_dynamo_traces_again_is_named_with_the_guard_that_failed(caplog):
    def scaled(x, factor):
        return x * 2 if factor == "two" else x * 3 if factor == "three" else x * 4

    called = torch.compile(scaled, backend="kiln")
    before = kiln.recompile_reasons()
    kiln.counters.clear()
    with caplog.at_level(logging.INFO, logger="kiln"):
        called(torch.ones(3), "two")
        assert new_reasons(before) == []
        called(torch.ones(3), "three")
        called(torch.ones(3), "four")
    one, other = new_reasons(before)
    assert kiln.counters["recompiles"] == 2
    for reason in (one, other):
        first = scaled.__code__.co_firstlineno
        assert reason.frame == f"scaled ({__file__}:{first})" and reason.graph is None
    assert len(one.guards) == 1 and "factor" in one.guards[0] and "two" in one.guards[0]
    assert len(other.guards) == 2  # the latest version's first
    assert "three" in other.guards[0] and "two" in other.guards[1]
    assert [record.getMessage() for record in caplog.records] == [str(one), str(other)]


def test_a_frame_of_another_size_says_so():
    called = torch.compile(lambda x: x.sin() + 1, backend="kiln")
    before = kiln.recompile_reasons()
    called(torch.ones(3, 4))
    called(torch.ones(3, 5))
    (reason,) = new_reasons(before)
    assert "size mismatch" in reason.guards[0] and "4" in reason.guards[0]


def test_a_graph_of_which_kiln_compiles_another_artifact_says_which_guard_failed():
    called = torch.compile(lambda x: x * 2 + 1, backend="kiln")
    memory = torch.zeros(65)
    assert memory.data_ptr() % 64 == 0
    called(memory[:64])
    before = kiln.recompile_reasons()
    got = called(memory[1:])
    assert got.tolist() == [1.0] * 64
    (reason,) = new_reasons(before)
    assert reason.graph.startswith("inference_") and __file__ in reason.frame
    assert "input 0: address not a multiple of" in reason.guards[0]
    assert "compiled again" in str(reason)


def test_a_graph_of_sizes_that_a_guard_parts_has_artifacts_of_their_own(monkeypatch):
    """PyTorch takes a convolution of 16 images and more in another way than of fewer. Its operators
    are the same, so AOTAutograd's cache may not take one for the other."""
    monkeypatch.setenv("KILN_STRICT", "1")

    def fn(x, weight, padding):
        return F.conv2d(x, weight, None, 1, padding)

    called = torch.compile(fn, backend="kiln", dynamic=True)
    weight = torch.randn(12, 8, 3, 3)
    for sizes in ((17, 8, 9, 10), (5, 8, 12, 7), (40, 8, 6, 6)):
        x = torch.randn(sizes)
        torch.testing.assert_close(called(x, weight, 1), fn(x, weight, 1), rtol=1e-4, atol=1e-4)
    assert kiln.counters["eager_graphs"] == 0


def test_explain_tells_of_what_one_call_compiles_again():
    def inner(x):
        return x.cos() * 3

    def fn(x, y):
        first = inner(x)
        torch._dynamo.graph_break()
        return [first, *map(inner, (x, y))]

    def outer(x, y):
        torch._dynamo.graph_break()
        return fn(x, y), fn(y, x)

    x, y = torch.ones(2), torch.ones(2, dtype=torch.float64)
    told = kiln.explain(outer, x, y)
    assert any(again.frame.startswith("fn (") for again in told.recompiles), told.recompiles
    assert any("dtype mismatch" in again.guards[0] for again in told.recompiles)
    assert all(str(again) in str(told) for again in told.recompiles)
    assert kiln.explain(inner, x).recompiles == []


def test_a_frame_that_lost_what_it_guarded_is_traced_again_for_that():
    class Held(torch.nn.Module):
        def forward(self, x):
            return x * 5 - 1

    def fn(x, held):
        return held(x)

    called, x = torch.compile(fn, backend="kiln"), torch.ones(3)
    before = kiln.recompile_reasons()
    kiln.counters.clear()
    called(x, Held())
    assert new_reasons(before) == []
    called(x.double(), Held())
    (reason,) = new_reasons(before)
    assert kiln.counters["recompiles"] == 1 and reason.frame.startswith("fn (") and reason.guards


def test_threads_that_compile_count_their_own_recompiles(threads_meet):
    def fn(x, word):
        return x + len(word)

    before = kiln.recompile_reasons()
    kiln.counters.clear()
    called = torch.compile(fn, backend="kiln")
    called(torch.ones(3), "a")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda word: called(torch.ones(3), word), ["bb", "ccc"]))
    again = new_reasons(before)
    assert kiln.counters["recompiles"] == len(again) == 2
    assert all("word" in one.guards[-1] for one in again)


def test_a_reason_without_a_guard_says_that_none_is_named():
    assert str(Recompile("f (x.py:1)", ())) == "f (x.py:1): traced again: no guard is named"


def test_threads_that_wait_for_one_first_compile_are_no_recompiles(threads_meet):
    begun = threading.Barrier(4)

    def fn(x):
        return x.sin() * 2.71875 - x

    called = torch.compile(fn, backend="kiln")
    x = torch.ones(3)

    def call(_):
        begun.wait()
        return called(x)

    before = kiln.recompile_reasons()
    kiln.counters.clear()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(call, range(4)))
    assert all(torch.equal(one, results[0]) for one in results)
    assert kiln.counters["compiles"] == kiln.counters["cache_miss"] == 1
    assert kiln.counters["recompiles"] == 0 and new_reasons(before) == []
