"""Aliases, storages, stale outputs: section 14.2 of the fact sheet."""

import gc

import pytest
import torch

import kiln
from trees import (
    checkpoints,
    descendants,
    graphs,
    live_blocks,
    recordings,
    reset_without_trees,
    state,
    thrice,
)

STALE = "overwritten by a subsequent run"


def _last_rules():
    return [node["rules"] for node in state()["nodes"]][-1]


def test_aliased_storage_single_weakref():
    def function(x):
        y = x * 20
        z = y.t()
        w = x.clone() + 3
        return y, z, y[0], w, w.t()

    called = graphs(function)
    x = torch.rand(4, 4, device="cuda")
    for _ in range(4):
        results = called(x)
        for result, expected in zip(results, function(x)):
            assert torch.equal(result, expected)
    storages = [result.untyped_storage()._cdata for result in results]
    assert len(set(storages)) == 2
    assert storages[0] == storages[1] == storages[2]
    assert storages[3] == storages[4]
    assert _last_rules() == ["fresh", "of output", "of output", "fresh", "of output"]
    del results, result, expected
    torch.compiler.cudagraph_mark_step_begin()
    called(x)
    called(x)  # of the same step, in which nothing is in use: nothing is recorded behind it
    assert (recordings(), checkpoints()) == (1, 0)
    part = called(x)[4]
    called(x)  # while that is in use
    assert (recordings(), checkpoints()) == (2, 1)
    assert torch.equal(part, (x + 3).t())


def test_alias_of_parameter():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(20, 20, device="cuda"))

        def forward(self, x):
            return x @ self.weight, self.weight, self.weight[0]

    module = Module()
    called = graphs(module)
    x = torch.rand(20, 20, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            product, whole, row = called(x)
            torch.testing.assert_close(product, x @ module.weight)
            assert whole.untyped_storage()._cdata == module.weight.untyped_storage()._cdata
            assert row.untyped_storage()._cdata == module.weight.untyped_storage()._cdata
    assert len(state()["nodes"][0]["live_after"]) == 1


def test_empty_storage():
    def function(x):
        return x + x, torch.zeros([0], device="cuda"), torch.zeros([100, 0], device="cuda")[0]

    called = graphs(function)
    x = torch.rand(4, device="cuda")
    for _ in range(3):
        results = called(x)
        assert torch.equal(results[0], x + x)
        assert results[1].shape == (0,)
    assert len(state()["nodes"][0]["live_after"]) == 1


def test_persisted_output_is_the_same_tensor():
    called = graphs(lambda x: x + x)
    x = torch.rand(4, device="cuda")
    for _ in range(3):
        out = called(x)
    out.of_this_test = True  # what no other tensor has
    del out
    out = called(x)
    assert getattr(out, "of_this_test", False)
    torch.compiler.cudagraph_mark_step_begin()
    out = called(x)
    view = out[0:2]
    del out
    # Still in use, in the same step: another recording comes behind the first.
    other = called(x + 1)
    assert descendants() == [1]
    assert torch.equal(view, (x + x)[0:2])
    assert torch.equal(other, x + x + 2)
    del view, other
    torch.compiler.cudagraph_mark_step_begin()
    for _ in range(2):  # nothing is in use
        assert torch.equal(called(x), x + x)
    assert recordings() == 2


def test_remove_hooks_on_cached_tensors():
    called = graphs(lambda x: x * x)
    x = torch.rand(4, device="cuda", requires_grad=True)
    for _ in range(5):
        x.grad = None
        out = called(x)
        assert not out._backward_hooks
        out.register_hook(lambda gradient: None)
        out.sum().backward()
        del out
    assert recordings() == 2
    assert state()["replays"] >= 4


@pytest.mark.parametrize("calls_before", [0, 1])  # it is a warm-up's, or a recording's
def test_a_stale_part_of_a_block_says_so_and_its_block_is_free(calls_before):
    called = graphs(lambda x: (x * 2)[2:])
    x = torch.rand(8, device="cuda")
    for _ in range(calls_before):
        called(x)
    torch.compiler.cudagraph_mark_step_begin()
    stale = called(x)
    assert torch.equal(stale, (x * 2)[2:])
    torch.compiler.cudagraph_mark_step_begin()
    fresh = called(x)
    with pytest.raises(RuntimeError, match="overwritten by a subsequent run"):
        stale + 1
    assert torch.equal(fresh, (x * 2)[2:])
    # What a recording gives has a block; what a replay gives has none until something is recorded.
    assert len(state()["live_blocks"]) == 1 - calls_before


def test_a_stale_output_says_so():
    called = graphs(lambda x: x * x + 7)
    x = torch.rand(4, device="cuda")
    warm = called(x)
    recorded = called(x)
    with pytest.raises(RuntimeError, match=STALE):
        warm + 1
    view = recorded[1:]
    called(x)
    with pytest.raises(RuntimeError, match=STALE):
        recorded + 1
    with pytest.raises(RuntimeError, match=STALE):
        view + 1


def test_a_stale_output_names_its_line():
    def function(x):
        return x * x + 9  # no other test's: a cache keeps the first one's line

    called = graphs(function)
    x = torch.rand(4, device="cuda")
    called(x)
    stale = called(x)
    called(x)
    with pytest.raises(RuntimeError, match=r"return x \* x \+ 9"):
        stale + 1


def test_tensor_dies_between_checkpoint():
    def function(x):
        return x + 1, x + 2

    first, second = graphs(function), graphs(lambda x: x * 5)
    x = torch.rand(4, device="cuda")
    for _ in range(2):
        first(x)
    torch.compiler.cudagraph_mark_step_begin()
    one = first(x)[0]  # the other dies before the next checkpoint, in which its block is freed
    assert checkpoints() == 0
    out = second(one)
    assert checkpoints() == 1
    assert torch.equal(out, (x + 1) * 5)
    del one
    assert live_blocks() == 1
    del out
    assert live_blocks() == 0


def test_output_alias():
    first, second = graphs(lambda x: x * 3), graphs(lambda x: (x.view(-1), x[0], x + 1))
    x = torch.rand(4, 4, device="cuda")
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        y = first(x)
        flat, row, more = second(y)
        assert torch.equal(flat, (x * 3).view(-1))
        assert torch.equal(more, x * 3 + 1)
        assert torch.equal(row, x[0] * 3)
        assert flat.data_ptr() == row.data_ptr() == y.data_ptr()
        del y, flat, row, more
    first(x)  # of the same step, in which nothing is in use
    assert (recordings(), checkpoints()) == (2, 0)
    assert state()["nodes"][0]["rules"] != ["cached"]
    assert "cached" not in _last_rules()[:2]


def test_cleanup():
    called = graphs(lambda x: x + 1)
    x = torch.rand(4, device="cuda")
    thrice(called, x)
    assert state() is not None
    del called
    reset_without_trees()
    gc.collect()
    assert kiln.graph_tree_state() is None


def test_amp_cache_disabled():
    called = graphs(lambda x: x * 2)
    x, weight = (torch.rand(8, 8, device="cuda") for _ in range(2))

    def products(y):
        """By a leaf, whose cast autocast keeps, before and after it is written to."""
        y.requires_grad_()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            before = y @ weight
            y.detach().zero_()
            return before, y @ weight

    before, after = products(x * 2)
    assert torch.equal(before, after)  # of a tensor that no graph gave the cast is kept
    for _ in range(3):
        y = called(x)
    before, after = products(y)
    assert before.abs().sum() > 0 and after.abs().sum() == 0


def test_an_output_that_is_saved_for_a_later_backward_stays():
    called = graphs(lambda x: x + 3)
    weight = torch.rand(4, device="cuda", requires_grad=True)
    x = torch.rand(4, device="cuda")
    for _ in range(3):
        called(x)
    torch.compiler.cudagraph_mark_step_begin()
    with torch.no_grad():
        y = called(x)
    loss = (y * weight).sum()
    del y
    with torch.no_grad():
        other = called(x * 0)
    loss.backward()
    torch.testing.assert_close(weight.grad, x + 3)
    del other, loss
    assert recordings() >= 1


def test_aliased_output_checkpoint():
    def function(x):
        y = x * 2
        return y, y[:2]

    first, second = graphs(function), graphs(lambda x: x + 1)
    x = torch.rand(4, 4, device="cuda")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        whole, part = first(x)
    assert checkpoints() == 0
    del whole
    for _ in range(2):
        assert torch.equal(second(part), x[:2] * 2 + 1)
    assert checkpoints() == 1
    assert live_blocks() == 1
    del part
    assert live_blocks() == 0


def test_checkpoint_shared_output_storage_deallocation():
    def function(x):
        y = x + 1
        return y, y.view(-1)

    first, second = graphs(function), graphs(lambda x: x * 2)
    x = torch.rand(4, 4, device="cuda")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        one, other = first(x)
    result = second(one)
    assert live_blocks() == 2
    del one
    assert live_blocks() == 2
    assert torch.equal(other, (x + 1).view(-1))
    del other
    assert live_blocks() == 1
    del result
    assert live_blocks() == 0


def test_aliasing_static_ref():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(10, 10, device="cuda"))

        def forward(self, x):
            return self.weight.view(-1), x @ self.weight

    module = Module()
    first, second = graphs(module), graphs(lambda x: x[0:2])
    x = torch.rand(10, 10, device="cuda")
    home = module.weight.untyped_storage()._cdata
    with torch.no_grad():
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            alias, product = first(x)
            assert alias.untyped_storage()._cdata == home
            part = second(product)
            assert part.untyped_storage()._cdata == product.untyped_storage()._cdata
            torch.testing.assert_close(product, x @ module.weight)
            torch.testing.assert_close(part, (x @ module.weight)[0:2])
            del alias, product, part
    # An alias of the parameter is the recorded tensor. What a later graph has an alias of is another
    # tensor each time.
    assert [node["rules"] for node in state()["nodes"]] == [["static", "fresh"], ["of storage"]]


def test_aliased_static_parameter():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(10, 10, device="cuda"))

        def forward(self):
            return self.weight[0:5], self.weight + 1

    module = Module()
    called = graphs(module)
    with torch.no_grad():
        for _ in range(4):
            part, more = called()
            assert torch.equal(more, module.weight + 1)
            assert part.untyped_storage()._cdata == module.weight.untyped_storage()._cdata
            assert torch.equal(part, module.weight[0:5])
    assert [node["rules"] for node in state()["nodes"]] == [["static", "cached"]]


def test_checkpointing_resets_persistent_refs():
    first, second = graphs(lambda x: x @ x), graphs(lambda x: (x[0], x @ x))

    def given():
        return torch.rand(20, 20, device="cuda")

    for _ in range(3):
        first(given())
    assert checkpoints() == 0
    first(given()).of_this_test = True
    assert getattr(first(given()), "of_this_test", False)
    for times in (1, 2):
        torch.compiler.cudagraph_mark_step_begin()
        out = first(given())
        alias, other = second(out)
        del alias
        assert live_blocks() == 2
        del other
        assert live_blocks() == 1
        del out
        assert live_blocks() == 0
        assert checkpoints() == times
    # A later graph has an alias of it, so it is another tensor each time.
    torch.compiler.cudagraph_mark_step_begin()
    kept = first(given())
    assert state()["nodes"][0]["rules"] == ["fresh"]
    assert not hasattr(kept, "of_this_test")


def test_tensor_no_longer_in_pool():
    first = graphs(lambda x: (x + 1, x + 2), skip_cudagraph_warmup=True)
    second = graphs(lambda x: x * x * x, skip_cudagraph_warmup=True)
    x = torch.rand(20, 20, device="cuda")
    torch.compiler.cudagraph_mark_step_begin()
    one, other = first(x)
    second(one)
    del one, other
    one, other = first(x)
    assert checkpoints() == 0
    # The input is elsewhere: another recording, behind a replay.
    elsewhere = torch.zeros_like(one)
    assert torch.equal(second(elsewhere), elsewhere)
    assert checkpoints() == 1
    assert descendants() == [2]
    del one, other


def test_storage_access_error():
    called = graphs(lambda x: x + 1)
    x = torch.rand(4, device="cuda")
    called(x)
    stale = called(x)
    called(x * 2)
    with pytest.raises(Exception, match=STALE):
        stale + 1
    with pytest.raises(Exception, match=STALE):
        stale.untyped_storage().data_ptr()


def test_error_on_dealloc_use_of_a_view():
    called = graphs(lambda x: x * x * x)
    x = torch.rand(4, 4, device="cuda")
    called(x)
    stale = called(x)
    part, detached = stale[0], stale.detach()
    called(x * 2)
    for one in (part, detached):
        with pytest.raises(Exception, match=STALE):
            one + 1


def test_accumulate_grad():
    def function(x, w):
        return x @ w

    called = graphs(function)
    w = torch.rand(8, 8, device="cuda", requires_grad=True)
    x = torch.rand(4, 8, device="cuda")
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        w.grad = None
        due = None
        for scale in (1.0, 2.0, 3.0):
            called(x * scale, w).sum().backward()
            (found,) = torch.autograd.grad(function(x * scale, w).sum(), w)
            due = found if due is None else due + found
            torch.testing.assert_close(w.grad, due)
    assert state()["replays"] >= 1
    w.grad = None


def test_a_gradient_is_taken_not_copied():
    """As by Inductor: a cached tensor's extra reference does not count for autograd."""
    linear = torch.nn.Linear(64, 64, device="cuda")
    called = graphs(linear)
    x = torch.rand(8, 64, device="cuda")
    kept = [torch.empty(64, 64, device="cuda")]
    for _ in range(5):
        linear.zero_grad(set_to_none=True)
        called(x).sum().backward()
        kept.append(linear.weight.grad.data_ptr())
        kept.append(torch.empty(64, 64, device="cuda"))  # what a copy would lie in next
    assert kept[-2] == kept[-4] == kept[-6]
    assert state()["replays"] >= 1
    linear.zero_grad(set_to_none=True)
