"""Replays of device graphs as profilers and launch hooks see them, without a GPU."""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kiln
from graph_stand_in import StandIn, Tree, values
from kiln import graph_device, launches
from kiln.graph_device import GraphDevice, keep_cupti
from kiln.kernel_bandwidth import _Watch, assign
from kiln.launches import Replay


@pytest.fixture
def replayed(monkeypatch):
    """A tree's function of x, warmed up and recorded; and a call of it in a step of its own."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x + 1).sin(), backend="kiln")

    def body(inputs):
        (x,) = inputs
        inputs.clear()
        return [compiled(x)]

    tree = Tree()
    function = tree.add(body, inputs=1)

    def call(x):
        tree.device.step()
        (y,) = function([x])
        return y

    for _ in range(2):
        call(torch.ones(8))
    assert tree.native.report()["recordings"] == 1
    yield call
    assert tree.native.report()["recordings"] == 1
    tree.native.shutdown()


def expected(x):
    return (x + 1).sin()


def test_a_replay_gives_what_the_function_gives(replayed):
    for x in torch.randn(3, 8):
        torch.testing.assert_close(values(replayed(x)), expected(x))


def test_of_an_input_that_repeats_a_replay_copies_one_of_each_and_calls_no_python(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    tree = Tree()
    function = tree.add(lambda inputs: [inputs[0].contiguous() * 2], inputs=1)

    def call(x):
        tree.device.step()
        return function([x.expand(3, 4, 2)])[0]

    for _ in range(2):
        call(torch.ones(4, 1))
    called = []
    sys.setprofile(lambda frame, event, what: event == "call" and called.append(frame.f_code.co_name))
    try:
        # The next replay writes over what this one gave.
        results = [values(call(x)) for x in torch.arange(8.0).view(2, 4, 1)]
    finally:
        sys.setprofile(None)
    assert not {"narrow", "narrowing"} & set(called) and called.count("launch") == 2
    assert tree.native.report()["replays"] == 2
    for x, result in zip(torch.arange(8.0).view(2, 4, 1), results):
        torch.testing.assert_close(result, x.expand(3, 4, 2) * 2)
    tree.native.shutdown()


def test_a_replay_is_one_pair_for_hooks_that_names_its_kernels(replayed):
    told = []
    hooks = kiln.register_launch_hooks(
        lambda launch: told.append(("enter", launch)), lambda launch: told.append(("exit", launch))
    )
    with hooks:
        replayed(torch.ones(8))
    (entered, launch), (left, other) = [pair for pair in told if isinstance(pair[1], Replay)]
    assert (entered, left) == ("enter", "exit") and launch is other
    assert launch.name == "kiln_graph_replay"
    (kernel,) = launch["kernels"]
    assert kernel["name"] == "kiln_poi_fused_add_sin_0"
    assert set(kernel["operators"]) == {"add", "sin"}
    assert (kernel["bytes_read"], kernel["bytes_written"]) == (32, 32)


def test_a_replay_is_one_event_that_names_its_kernels(replayed):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        replayed(torch.ones(8))
    (event,) = [event for event in seen.events() if event.name == "kiln_graph_replay"]
    assert event.kwinputs["kernels"] == "kiln_poi_fused_add_sin_0"
    assert event.kwinputs["stream"] == 0
    assert "kernel_backend" not in event.kwinputs  # it is no kernel


def test_what_a_hook_raises_before_a_replay_ends_the_call_and_the_next_one_works(replayed):
    def enter(launch):
        if isinstance(launch, Replay):
            raise LookupError("of the hook")

    with kiln.register_launch_hooks(enter), pytest.raises(LookupError, match="of the hook"):
        replayed(torch.ones(8))
    x = torch.randn(8)
    torch.testing.assert_close(values(replayed(x)), expected(x))


def test_what_a_hook_raises_after_a_replay_ends_the_call_and_the_next_one_works(replayed):
    def leave(launch):
        if isinstance(launch, Replay):
            raise LookupError("of the hook")

    with kiln.register_launch_hooks(exit=leave), pytest.raises(LookupError, match="of the hook"):
        replayed(torch.ones(8))
    x = torch.randn(8)
    torch.testing.assert_close(values(replayed(x)), expected(x))


FRAMES = [
    {"filename": "model.py", "line": 3, "name": "forward"},
    {"filename": "??", "line": 0, "name": "at::cuda::blas::gemm<float>"},
]


@pytest.mark.parametrize("frames", [FRAMES, []])
def test_a_stray_block_says_who_allocated_it(monkeypatch, frames):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    blocks = [
        {"state": "inactive", "size": 0x200},
        {"state": "active_allocated", "size": 0x400, **({"frames": frames} if frames else {})},
    ]
    segment = {"segment_pool_id": (0, 1), "address": 0x1000, "blocks": blocks}
    other = {**segment, "segment_pool_id": (0, 0)}
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [other, segment])

    class WithSnapshots(StandIn):
        pool = (0, 1)
        blocks, origin_of = GraphDevice.blocks, GraphDevice.origin_of
        _allocated = GraphDevice._allocated

    tree = Tree(WithSnapshots())
    function = tree.add(lambda inputs: [inputs.pop() + 1], 1, check_pool=1)
    with pytest.raises(RuntimeError) as error:
        function([torch.ones(4)])
    first, *lines = str(error.value).splitlines()
    assert first.endswith(
        "Detected 1 tensor(s) in the cudagraph pool not tracked as outputs. "
        "All live allocations must be tracked for correctness."
    )
    if frames:
        assert lines == [
            f"Data Pointer: {0x1200}, history: ",
            '  File "model.py", line 3, in forward',
            '  File "??", line 0, in at::cuda::blas::gemm<float>',
        ]
    else:
        assert len(lines) == 1 and "_record_memory_history" in lines[0]
    tree.native.shutdown()


@pytest.mark.parametrize("calls_before", [0, 1])  # it fails in its warm-up, or in its capture
def test_after_a_failure_the_next_recordings_lie_in_another_pool(monkeypatch, calls_before):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    tree = Tree()
    fails = []

    def body(inputs):
        (x,) = inputs
        inputs.clear()
        if fails:
            raise fails.pop()
        return [x * 2]

    double, add = tree.add(body, 1), tree.add(lambda inputs: [inputs.pop() + 1], 1)

    def call(function, x):
        tree.device.step()
        (y,) = function([x])
        return values(y)

    x = torch.arange(4.0)
    for _ in range(3):
        call(add, x)
    for _ in range(calls_before):
        call(double, x)
    fails.append(LookupError("of the body"))
    with pytest.raises(LookupError, match="of the body"):
        call(double, x)
    assert tree.device.pools == 2
    assert tree.native.nodes() == []
    for _ in range(3):
        assert call(double, x).tolist() == (x * 2).tolist()
        assert call(add, x).tolist() == (x + 1).tolist()
    assert tree.native.report()["recordings"] == 3
    tree.native.shutdown()


@pytest.mark.parametrize("streams_of_threads", [False, True])
def test_threads_that_take_turns_wait_where_their_streams_differ(monkeypatch, streams_of_threads):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    tree = Tree()
    tree.device.streams_of_threads = streams_of_threads
    function = tree.add(lambda inputs: [inputs.pop() + 1], 1)
    held = []

    def call(keep=False):
        tree.device.step()
        held[:] = function([torch.arange(4.0)])
        if not keep:
            held.clear()
        return threading.get_ident()

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        turns = [one, other, other, one]
        idents = [executor.submit(call).result() for executor in turns]
        one.submit(call, keep=True).result()
        other.submit(function, [torch.arange(4.0)]).result()  # runs plainly, and orders nothing
        one.submit(held.clear).result()
        idents += [executor.submit(call).result() for executor in (other, other, one)]
    first, second = idents[0], idents[1]
    pairs = [(first, second), (second, first), (first, second), (second, first)]
    assert tree.device.thread_changes == len(pairs)
    assert tree.device.waits == (pairs if streams_of_threads else [])
    tree.native.shutdown()


def test_a_wait_for_another_threads_stream_that_fails_is_tried_again(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    tree = Tree()
    tree.device.streams_of_threads = True
    failures = [LookupError("of the wait")]
    change = StandIn.change_thread

    def change_thread(device, before):
        change(device, before)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(StandIn, "change_thread", change_thread)
    function = tree.add(lambda inputs: [inputs.pop() + 1], 1)

    def call():
        tree.device.step()
        function([torch.arange(4.0)])
        return threading.get_ident()

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first = one.submit(call).result()
        with pytest.raises(LookupError, match="of the wait"):
            other.submit(call).result()
        second = other.submit(call).result()
    assert tree.device.waits == 2 * [(first, second)]
    tree.native.shutdown()


def test_a_thread_that_holds_a_result_is_not_written_over_by_another(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    tree = Tree()
    function = tree.add(lambda inputs: [inputs.pop() + 1], 1)

    def call(x):
        tree.device.step()
        (y,) = function([x])
        return y

    def in_another_thread(x):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(call(x).clone()))
        thread.start()
        thread.join()
        return seen[0]

    x = torch.arange(4.0)
    for _ in range(3):
        kept = call(x)
    for step in range(3):
        assert in_another_thread(x + step).tolist() == (x + step + 1).tolist()
    assert values(kept).tolist() == (x + 1).tolist()
    report = tree.native.report()
    assert (report["plain_runs"], report["replays"], tree.device.thread_changes) == (3, 1, 0)
    assert len(tree.device.notes) == 1
    kept = None
    assert values(call(x * 2)).tolist() == (x * 2 + 1).tolist()
    in_another_thread(x)
    report = tree.native.report()
    assert (report["plain_runs"], report["replays"], tree.device.thread_changes) == (3, 3, 1)
    tree.native.shutdown()


@pytest.fixture
def product(monkeypatch):
    """x * w by a tree: its forward and backward are functions of one. And the tree."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    tree = Tree()

    def body(inputs):
        first, second = inputs
        inputs.clear()
        return [first * second]

    forward = tree.add(body, 2, static=[1], mode=1)
    backward = tree.add(body, 2, mode=2)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x)
            tree.device.step()
            (y,) = forward([x, w])
            return y

        @staticmethod
        def backward(ctx, gradient):
            (given,) = backward([gradient.contiguous(), *ctx.saved_tensors])
            return None, given

    yield Product.apply, tree
    tree.native.shutdown()


@pytest.mark.parametrize("calls_before", [0, 1])  # the gradient is a warm-up's, or a recording's
def test_a_gradient_that_the_next_backward_is_added_to_has_memory_of_its_own(product, calls_before):
    called, tree = product
    x, w = torch.arange(4.0), torch.ones(4, requires_grad=True)
    for _ in range(calls_before):
        called(x, w).sum().backward()
        w.grad = None
    called(x, w).sum().backward()
    gradient, of_the_graph = w.grad, w.grad.data_ptr()
    given = called(x + 1, w)
    assert w.grad is gradient and gradient.data_ptr() != of_the_graph
    assert gradient.tolist() == x.tolist()
    if calls_before == 0:  # else it is a replay, whose results PyTorch takes for a GPU's
        given.sum().backward()
        assert gradient.tolist() == (2 * x + 1).tolist()


def test_a_gradient_that_was_dropped_is_not_copied(product, monkeypatch):
    called, tree = product
    x, w = torch.arange(4.0), torch.ones(4, requires_grad=True)
    asked = []
    monkeypatch.setattr(tree.device, "keep_gradients", lambda *given: asked.append(given), raising=False)
    called(x, w).sum().backward()
    w.grad = None
    called(x, w)
    assert asked == []


def test_autograds_threads_have_the_number_of_whose_backward_it_is():
    numbers = {}

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            numbers["backward"] = StandIn().thread()
            return gradient

    def work():
        numbers["forward"] = StandIn().thread()
        Noted.apply(torch.ones(2, requires_grad=True)).sum().backward()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    # The CPU's backward runs in the thread that asks for it, a GPU's in one of autograd's.
    assert abs(numbers["backward"]) == numbers["forward"] != StandIn().thread()


def test_bandwidth_counts_the_kernels_of_a_replay(monkeypatch):
    stream = SimpleNamespace(cuda_stream=7)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    kernel = {"name": "k_0", "symbol": "k_5f0c", "bytes_read": 8, "bytes_written": 4, "extents": (2,)}
    large = {**kernel, "bytes_read": 80, "extents": (20,)}  # the same one, of another graph
    other = {**kernel, "symbol": "k_9a2b"}  # another one, which its graph calls so too
    watch = _Watch()
    replay = Replay(torch.device("cuda", 0), [kernel, large, other, kernel])
    assert replay["stream"] == 7
    stream.cuda_stream = 8
    assert replay["stream"] == 8  # that of the next one
    watch.enter(replay)
    watch.exit(replay)
    seen = list(watch.kernels.values())
    assert [(one.name, one.launches, one.bytes) for one in seen] == [
        ("k_0", 2, 12),
        ("k_0", 1, 84),
        ("k_0", 1, 12),
    ]
    assert [one.seconds for one in seen] == [[], [], []]  # the device's clock knows them
    assert watch.device.type == "cuda"
    # Of two calls, as the device began the launches.
    events = [("k_5f0c", 1), ("memset", 9), ("k_5f0c", 5), ("k_9a2b", 3), ("k_5f0c", 2)]
    events += [("k_5f0c", 1), ("k_5f0c", 6), ("k_9a2b", 4), ("k_5f0c", 2)]
    assign(watch.kernels, watch.order, events)
    assert [one.seconds for one in seen] == [[1, 2, 1, 2], [5, 6], [3, 4]]


@pytest.fixture
def cupti(monkeypatch):
    """The variables that tell CUPTI what to do; unset, and again afterwards."""
    names = ("DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI")
    monkeypatch.setattr(launches, "noted_of_replays", {})
    monkeypatch.setattr(graph_device, "noted_of_replays", launches.noted_of_replays)
    for name in names:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    return lambda: tuple(os.environ.get(name) for name in names)


@pytest.mark.parametrize("version", [None, "12.6", "12.10", "13.0"])
def test_cupti_of_today_is_left_alone(cupti, version):
    keep_cupti(version)
    assert cupti() == (None, None)


@pytest.mark.parametrize("version", ["11.8", "12.5"])
def test_an_older_cupti_is_kept_beside_graphs(cupti, version, tmp_path):
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        keep_cupti(version)
    assert cupti() == ("1", "0")
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert str(trace["DISABLE_CUPTI_LAZY_REINIT"]) == "1"


def test_pytorchs_switch_keeps_cupti_of_today_too(cupti, monkeypatch):
    switch = "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12"
    monkeypatch.setattr(torch._utils_internal, switch, lambda: False)
    keep_cupti("13.0")
    assert cupti() == ("1", "0")


def test_a_profiler_that_begins_later_notes_it_when_a_graph_is_replayed(cupti, replayed, tmp_path):
    keep_cupti("12.4")
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        replayed(torch.ones(8))
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert str(trace["DISABLE_CUPTI_LAZY_REINIT"]) == "1"


def test_without_a_profiler_nothing_is_noted_in_a_trace(cupti, tmp_path):
    keep_cupti("12.4")
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        pass
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "DISABLE_CUPTI_LAZY_REINIT" not in json.loads((tmp_path / "trace.json").read_text())
