"""Options of device graphs hold for the model that has them, whoever else uses the tree; and what a
model has in it goes with the model."""

import gc
import weakref

import pytest
import torch

import kiln
from graph_stand_in import StandIn
from kiln import graph_trees, service
from kiln.graph_choice import Chooser
from kiln.graph_trees import GraphFunction


class Models:
    """Functions of one tree, over host memory in place of a GPU's."""

    def __init__(self):
        self.tree = graph_trees.tree_of(7)

    def add(self, program, static=(), mutated=(), mode=0, integers=(), **options):
        """A function of one tensor, and of the integers behind it. ``mode``: of graph_facts.MODES."""
        facts = {"mode": mode, "tensors": [0], "integers": list(integers), "static": list(static)}
        facts |= {"mutated": list(mutated), "names": ["weight"], "traces": ["where"]}
        facts |= {"output_traces": [None], "mutation_trace": ""}
        given = Chooser(kiln.config.snapshot({"cudagraphs": True, **options}))._options
        return GraphFunction(program, facts, 7, given)

    def call(self, function, *inputs):
        """Each in a step of its own. Gives what the tree counted meanwhile."""
        before = self.tree.native.report()
        for x in inputs:
            self.tree.device.step()
            function.direct([x])([x])
        after = self.tree.native.report()
        names = ("warm_ups", "recordings", "skips", "plain_runs")
        return {name: after[name] - before[name] for name in names}


@pytest.fixture
def models(monkeypatch):
    service.load_library()
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    monkeypatch.setattr(graph_trees, "GraphDevice", lambda index: StandIn())
    yield Models()
    graph_trees.reset()


@pytest.fixture
def parameters_are_attributes():
    with torch._dynamo.config.patch(inline_inbuilt_nn_modules=False):
        yield


def double(inputs):
    return [inputs.pop() * 2]


def written(inputs):
    """Said to write to its input: that it is asked is enough."""
    inputs.clear()
    return [torch.ones(16)]


def in_either_order(pair):
    return pytest.mark.parametrize("order", [pair, pair[::-1]], ids=["first", "last"])


@in_either_order([1, 100])
def test_each_function_has_its_own_limit(models, parameters_are_attributes, order):
    weights = [torch.ones(16) for _ in range(6)]  # at addresses of their own
    counts = {}
    for limit in order:
        f = models.add(double, static=[0], cudagraph_unexpected_rerecord_limit=limit)
        counts[limit] = models.call(f, *weights)
    assert counts[1] == {"warm_ups": 1, "recordings": 2, "skips": 1, "plain_runs": 3}
    assert counts[100] == {"warm_ups": 1, "recordings": 5, "skips": 0, "plain_runs": 0}


@in_either_order([False, True])
def test_each_function_has_its_own_mode_of_warming_up(models, order):
    x = torch.ones(16)
    counts = {}
    for skips in order:
        counts[skips] = models.call(models.add(double, skip_cudagraph_warmup=skips), x, x, x)
    assert counts[False]["warm_ups"] == 1 and counts[True]["warm_ups"] == 0
    forced = models.add(double, force_cudagraphs_warmup=True)
    assert models.call(forced, x, x, x)["warm_ups"] == 3
    assert models.call(models.add(double), x, x, x)["warm_ups"] == 1


@in_either_order([False, True])
def test_a_skip_is_an_error_of_the_function_alone_that_asks_for_it(models, order):
    for is_error in order:
        f = models.add(written, mutated=[0], cudagraph_or_error=is_error)
        if is_error:
            with pytest.raises(kiln.KilnError, match="skipping cudagraphs due to mutated inputs"):
                models.call(f, torch.ones(16))
        else:
            assert models.call(f, torch.ones(16), torch.ones(16))["plain_runs"] == 2


@in_either_order([False, True])
def test_each_function_has_its_own_word_on_what_it_writes_to(models, order):
    counts = {}
    for writes in order:
        f = models.add(double)
        g = models.add(written, mutated=[0], cudagraph_support_input_mutation=writes)
        models.call(f, torch.ones(16), torch.ones(16))
        skips = 0
        for _ in range(3):
            models.tree.device.step()
            inputs = [torch.ones(16)]
            given = f.direct(inputs)(inputs)
            before = models.tree.native.report()["skips"]
            g.direct(given)(given)
            skips += models.tree.native.report()["skips"] - before
        counts[writes] = skips
    assert counts == {False: 1, True: 0}


@in_either_order([False, True])
def test_a_moved_parameter_is_an_error_where_nothing_else_is_allowed(
    models, parameters_are_attributes, order
):
    """Section 4 of the fact sheet: where parameters are no inputs and none may be written."""
    first, moved = torch.ones(16), torch.ones(16)
    for writes in order:
        f = models.add(double, static=[0], cudagraph_support_input_mutation=writes)
        models.call(f, first, first, first)
        if writes:
            assert models.call(f, moved)["recordings"] == 1
            continue
        with pytest.raises(kiln.KilnError) as error:
            models.call(f, moved)
        assert str(error.value).splitlines() == [
            "static input data pointer changed.",
            f"input name: weight. data pointer changed from {first.data_ptr()} to "
            f"{moved.data_ptr()}. input stack trace: where",
        ]
        assert models.call(f, first)["recordings"] == 0  # it replays


def test_a_moved_parameter_that_is_an_input_is_recorded_anew(models):
    f = models.add(double, static=[0], cudagraph_support_input_mutation=False)
    first, moved = torch.ones(16), torch.ones(16)
    assert models.call(f, first, first, moved)["recordings"] == 2


def test_why_something_is_recorded_anew_is_counted_and_told(models):
    """To the function that it is about, which explain asks."""
    kiln.counters.clear()
    others = models.add(double)
    f = models.add(double, static=[0])
    models.call(others, torch.ones(16), torch.ones(16), torch.ones(16))
    models.call(f, torch.ones(16), torch.ones(16), torch.ones(16))
    assert kiln.counters["cudagraph_rerecords"] == 1
    (told,) = f.told()
    assert told.startswith("Re-recording function 1 due to static input data pointer changed.")
    assert others.told() == []


def test_why_a_call_goes_without_a_graph_is_told(models):
    f = models.add(written, mutated=[0])
    models.call(f, torch.ones(16), torch.ones(16))
    assert f.told() == ["skipping cudagraphs due to mutated inputs (1 instances)"]
    overlapping = models.add(double)
    models.call(overlapping, torch.ones(16).as_strided((4, 4), (1, 1)))
    assert overlapping.told() == ["skipping cudagraphs due to ['complex memory overlap']"]


def test_what_fails_each_time_is_given_up_and_that_is_told(models):
    """Each failure takes another pool; what cannot be captured would take one a call."""
    fails = [True]

    def body(inputs):
        if fails:
            raise LookupError("of the body")
        return [inputs.pop() * 2]

    f, kept = models.add(body), models.add(double)
    models.call(kept, torch.ones(16), torch.ones(16))
    for _ in range(5):
        with pytest.raises(LookupError, match="of the body"):
            models.call(f, torch.ones(16))
    assert models.tree.device.pools == 1 + 3
    fails.clear()
    assert models.call(f, torch.ones(16), torch.ones(16))["plain_runs"] == 2
    assert f.told() == [
        "all recordings are dropped, since the warm-up or the recording of function 1 failed in "
        "their pool",
        "skipping cudagraph since the warm-up or the recording of function 1 failed 3 times in a row",
    ]
    kinds = [kind for kind, _, _ in models.tree.device.notes]
    assert kinds == ["dropped", "skip"]


def test_a_function_that_fails_now_and_then_keeps_its_graphs(models):
    fails = []

    def body(inputs):
        if fails:
            raise fails.pop()
        return [inputs.pop() * 2]

    f = models.add(body)
    for _ in range(4):
        fails.append(LookupError("of the body"))
        with pytest.raises(LookupError):
            models.call(f, torch.ones(16))
        models.call(f, torch.ones(16), torch.ones(16))
    assert models.call(f, torch.ones(16))["plain_runs"] == 0
    assert "skip" not in [kind for kind, _, _ in models.tree.device.notes]


def test_a_result_outside_of_the_pool_is_an_error(models, monkeypatch):
    f = models.add(double, skip_cudagraph_warmup=True)
    monkeypatch.setattr(StandIn, "blocks", lambda device: [])
    with pytest.raises(kiln.KilnError, match="are not allocated in pool stand-in but should be"):
        models.call(f, torch.ones(16))


def test_a_backward_that_is_skipped_ends_the_waiting_of_its_forward(models):
    forward, backward = models.add(double, mode=1), models.add(double, mode=2)
    overlapping = torch.ones(16).as_strided((4, 4), (1, 1))
    for _ in range(3):
        models.call(forward, torch.ones(16))
        assert models.tree.native.report()["forwards_pending"]
        models.call(backward, overlapping)
        assert not models.tree.native.report()["forwards_pending"]
    assert models.tree.native.report()["recordings"] == 1


def test_a_parameter_that_moves_to_an_odd_address_is_copied_from_there(models):
    function = models.add(double, static=[0])
    whole = torch.ones(33)
    models.call(function, *[whole[:32]] * 3)
    assert models.call(function, *[whole[1:]] * 3)["recordings"] == 1
    aligned, beside = models.tree.native.nodes()
    assert aligned["addresses"] == [whole.data_ptr()]
    assert beside["addresses"] == [0]
    assert models.tree.native.report()["recorded_copied_inputs"] == 1


def test_what_is_recorded_of_a_model_goes_with_the_model(models):
    class Body:
        def __call__(self, inputs):
            return double(inputs)

    x, body = torch.ones(16), Body()
    kept, gone = models.add(double), models.add(body)
    gone.kept = gone  # what holds itself is the garbage collector's
    for function in (kept, gone):
        models.call(function, *[x] * 3)
    known = weakref.ref(body)
    assert len(models.tree.native.nodes()) == 2
    del body, gone, function
    gc.collect()
    assert known() is None
    assert [node["function"] for node in models.tree.native.nodes()] == [0]
    assert models.call(kept, x)["recordings"] == 0


@pytest.mark.parametrize("how", ["reset", "the last model's end"])
def test_a_result_that_is_held_owns_its_memory_at_the_end_of_the_tree(models, monkeypatch, how):
    """A replay has not allocated it."""
    restored = []
    device = models.tree.device
    monkeypatch.setattr(device, "restore", lambda state, live: restored.append(live), raising=False)
    function = models.add(double)
    models.call(function, *[torch.ones(16)] * 2)
    device.step()
    (held,) = function.direct([])([torch.ones(16)])
    assert restored == []
    if how == "reset":
        graph_trees.reset()
    else:
        del function, models.tree
        gc.collect()
    assert restored == [[held.untyped_storage()._cdata]]


def test_a_result_that_is_held_owns_its_memory_whatever_the_collector_clears_first(models, monkeypatch):
    restored = []

    def restore(device, state, live):
        restored.append((device.pools, live))  # of a device that was cleared nothing is left

    monkeypatch.setattr(StandIn, "restore", restore)
    function = models.add(double)
    models.call(function, *[torch.ones(16)] * 2)
    models.tree.device.step()
    (held,) = function.direct([])([torch.ones(16)])
    ring = [function, models.tree]
    ring.append(ring)
    del function, ring, models.tree
    gc.collect()
    assert restored == [(1, [held.untyped_storage()._cdata])]


def test_sizes_that_get_no_graph_are_told_of_and_count_for_no_warning(models):
    limits = {"cudagraph_capture_sizes": (8, 9), "cudagraph_dynamic_shape_warn_limit": 1}
    kiln.counters.clear()
    function = models.add(lambda inputs: [inputs[0] * 2], integers=[1], **limits)

    def call(size):
        models.tree.device.step()
        function.direct([torch.ones(16), size])([torch.ones(16), size])

    for size in (1, 2, 3, 8):
        call(size)
    unlisted = "no device graph of sizes that cudagraph_capture_sizes does not list"
    assert function.told() == [unlisted]
    call(9)
    assert function.told()[0] == unlisted and "observed 2 distinct sizes" in function.told()[1]
    assert kiln.counters["cudagraph_skips"] == 0
