"""What device graphs are told of an ATen graph, and the tree's binding: without a GPU."""

import copy
import dataclasses
import pickle
import types

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import kiln
from kiln import _native, graph_choice, graph_trees, look, service
from kiln.compiled_graph import CompiledGraph, recording
from kiln.graph_choice import Choice, Chooser, annotated
from kiln.graph_device import GraphDevice
from kiln.graph_facts import facts_of
from test_graph_partitions import Cut

OPTIONS = kiln.config.snapshot()


def traced(function, *devices):
    """The ATen graph of a function of tensors on these devices."""
    getattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)()
    with FakeTensorMode():
        inputs = [torch.empty(4, device=device) for device in devices]
        module = make_fx(function)(*inputs)
    (output,) = module.graph.find_nodes(op="output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ([output.args[0]],)
    return module


def test_a_graph_on_a_gpu_may_be_a_device_graph():
    module = traced(lambda x, y: x + y, "cuda", "cuda")
    facts = facts_of(module, "inference", [1], OPTIONS)
    assert facts["skip"] is None
    assert (facts["tensors"], facts["static"], facts["mutated"]) == ([0, 1], [1], [])


@pytest.mark.parametrize(
    ("function", "devices", "why"),
    [
        (lambda x, y: (x + 1, y + 1), ("cuda", "cpu"), "cpu device ("),
        pytest.param(
            *(lambda x, y: (x + 1, y + 1), ("cuda:0", "cuda:1"), "multiple devices: device("),
            marks=pytest.mark.skipif(
                torch.cuda.device_count() == 1, reason="PyTorch begins a context on the GPU that is named"
            ),
        ),
        (lambda x: x + x.sum().cpu(), ("cuda",), "cpu device ("),
        (lambda x, m: x.index_put((m > 0,), x[0]), ("cuda", "cuda"), "disabling cudagraphs due to inc"),
    ],
)
def test_what_keeps_a_graph_from_being_one_is_said(function, devices, why):
    whole = {**OPTIONS, "graph_partition": False}
    facts = facts_of(traced(function, *devices), "inference", [], whole)
    assert facts["skip"].startswith(why)
    cut = facts_of(traced(function, *devices), "inference", [], OPTIONS)
    assert bool(cut["skip"]) == why.startswith("multiple")


def test_written_inputs_are_known():
    module = traced(lambda x, y: x.copy_(y + 1), "cuda", "cuda")
    assert facts_of(module, "inference", [], OPTIONS)["mutated"] == [0]
    unwritten = {**OPTIONS, "cudagraph_support_input_mutation": False}
    facts = facts_of(module, "inference", [], unwritten)
    assert facts["skip"].startswith("mutated inputs (1 instances)")
    assert facts_of(module, "inference", [0], unwritten)["skip"] is None


@pytest.mark.parametrize(
    ("on", "forward", "backward", "graphs", "skips"),
    [
        (True, None, None, (True, True), []),
        (True, False, None, (False, False), [""]),
        (True, False, True, (False, False), [""]),
        (True, None, False, (True, False), [" for backward"]),
        (False, None, None, (False, False), []),
        (False, True, None, (True, True), []),
        (False, True, False, (True, False), [" for backward"]),
        (False, False, False, (False, False), []),
        (False, None, True, (False, False), []),
    ],
)
def test_an_annotation_overrides_the_option(on, forward, backward, graphs, skips, caplog):
    module = traced(lambda x: x + 1, "cuda")
    if (forward, backward) != (None, None):
        module.meta["cudagraph_annotation"] = types.SimpleNamespace(fwd=forward, bwd=backward)
    options = annotated({**OPTIONS, "cudagraphs": on}, module)
    kiln.counters.clear()
    with caplog.at_level("WARNING", logger="kiln"):
        chooser = Chooser(options)
        choices = [chooser.choose(module, kind) for kind in ("forward", "backward")]
    assert tuple(c is not None and c.facts is not None for c in choices) == graphs
    # One whose forward is a graph tells the tree that it ran; another says why it is none.
    assert (choices[1] is not None and choices[1].follows is None) == graphs[0]
    asked = on or bool(forward)
    assert (choices[1] is not None and choices[1].follows is not None) == (asked and not graphs[0])
    told = [f"disabling cudagraphs{which} due to override_cudagraphs annotation" for which in skips]
    assert [record.getMessage() for record in caplog.records] == told
    assert kiln.counters["cudagraph_skips"] == len(skips)


def test_an_annotation_disables_an_inference():
    module = traced(lambda x: x + 1, "cuda")
    module.meta["cudagraph_annotation"] = types.SimpleNamespace(fwd=False, bwd=None)
    options = annotated({**OPTIONS, "cudagraphs": True}, module)
    choice = Chooser(options).choose(module, "inference")
    assert (choice.facts, choice.device_graphs) == (None, 0)
    assert choice.skip == "disabling cudagraphs due to override_cudagraphs annotation"
    # What AOTAutograd's cache keeps of it is not found for the others: its tag has the options.
    assert any("cudagraph" in name for name in options.keys() - OPTIONS.keys())


@pytest.mark.parametrize("kind", ["forward", "inference"])
def test_an_option_that_switches_device_graphs_off_says_so(kind):
    option = {"can_inplace_pad_graph_input": True}
    kiln.counters.clear()
    chooser = Chooser({**OPTIONS, "cudagraphs": True, **option})
    choice = chooser.choose(traced(lambda x: x + 1, "cuda"), kind)
    why = f"skipping cudagraphs due to the option {next(iter(option))}"
    assert (choice.device_graphs, choice.skip) == (0, why)
    assert kiln.counters["cudagraph_skips"] == 1
    backward = chooser.choose(traced(lambda x: x + 1, "cuda"), "backward")
    follows = "no device graph, since its forward is none"
    assert (backward.device_graphs, backward.skip, backward.follows) == (0, None, follows)
    assert kiln.counters["cudagraph_skips"] == 1
    traced_too = Chooser({**OPTIONS, "cudagraphs": True, "trace": "/tmp"})
    assert traced_too.choose(traced(lambda x: x + 1, "cuda"), kind).device_graphs == 1
    unasked = Chooser({**OPTIONS, **option})
    for which in (kind, "backward"):
        assert unasked.choose(traced(lambda x: x + 1, "cuda"), which) is None


@pytest.mark.parametrize("kind", ["forward", "inference"])
def test_a_graph_that_calls_nothing_is_none_and_no_skip(kind):
    kiln.counters.clear()
    choice = Chooser({**OPTIONS, "cudagraphs": True}).choose(traced(lambda x: x, "cuda"), kind)
    assert (choice.device_graphs, choice.skip) == (0, None)
    assert kiln.counters["cudagraph_skips"] == 0


def test_a_skip_is_told_again_of_what_a_cache_has_kept(caplog):
    options = {**OPTIONS, "cudagraphs": True, "graph_partition": False}
    kiln.counters.clear()
    with caplog.at_level("WARNING", logger="kiln"):
        choice = Chooser(options).choose(traced(lambda x: x.cpu() + 1, "cuda"), "forward")
        Choice(**dataclasses.asdict(choice)).tell()
    (first, again) = [record.getMessage() for record in caplog.records]
    assert first == again == choice.skip
    assert first.startswith("skipping cudagraphs due to cpu device (")
    assert kiln.counters["cudagraph_skips"] == 2


def test_a_graph_that_comes_from_a_cache_tells_of_its_skip(caplog):
    torch._dynamo.reset()
    with recording() as graphs:
        torch.compile(lambda x: x * 2 + 1, backend="kiln")(torch.ones(4))
    (graph,) = graphs
    graph.choice = Choice(None, dict(OPTIONS), "skipping cudagraphs due to x")
    kept = copy.copy(graph)
    kept.prepare_for_serialization()
    loaded = object.__new__(CompiledGraph)
    loaded.__setstate__(pickle.loads(pickle.dumps(kept.__getstate__())))
    kiln.counters.clear()
    with caplog.at_level("WARNING", logger="kiln"):
        loaded.post_compile()
    said = [record.getMessage() for record in caplog.records if record.name == "kiln"]
    assert said == ["skipping cudagraphs due to x"]
    assert kiln.counters["cudagraph_skips"] == 1
    assert torch.equal(loaded([torch.ones(4)])[0], torch.full((4,), 3.0))


def test_explain_tells_of_device_graphs(monkeypatch):
    module = traced(lambda x: x + 1, "cuda")
    options = {**OPTIONS, "cudagraphs": True}
    whole = Chooser(options).choose(module, "inference")
    parted = dataclasses.replace(whole, parts=[{}, {}], cuts=["aten.item.default: cpu ops"])
    skipped = dataclasses.replace(whole, facts=None, skip="skipping cudagraphs due to x")
    follows = dataclasses.replace(whole, facts=None, follows="no device graph, since its forward is none")
    again = types.SimpleNamespace(told=lambda: ["Re-recording function 7"])
    silent = types.SimpleNamespace(told=list)
    cases = [(whole, [again]), (parted, [silent, silent]), (skipped, []), (follows, [])]
    graphs = [
        types.SimpleNamespace(
            name=f"inference_{n}",
            segments=1,
            hosts={},
            callables=[],
            refusal=None,
            choice=choice,
            graph_functions=functions,
        )
        for n, (choice, functions) in enumerate([*cases, (None, []), (whole, [])])
    ]
    monkeypatch.setattr(look, "_compiled", lambda *_, **__: graphs)
    monkeypatch.setattr(look, "of_graph", lambda graph: [])
    monkeypatch.setattr(graph_trees, "what_is_missing", lambda: "_CUDAGraph")
    told = kiln.explain(lambda: None)
    off = "device graphs are off: this PyTorch has no torch._C._CUDAGraph"
    assert [graph.device_graphs for graph in told.graphs] == [1, 2, 0, 0, 0, 0]
    skips = [None, None, skipped.skip, follows.follows, None, off]
    assert [graph.skip for graph in told.graphs] == skips
    assert str(told).splitlines() == [
        "inference_0: 1 compiled, 0 host kernels, 1 device graphs",
        "  Re-recording function 7",
        "inference_1: 1 compiled, 0 host kernels, 2 device graphs",
        "  cut by aten.item.default: cpu ops",
        "inference_2: 1 compiled, 0 host kernels",
        "  skipping cudagraphs due to x",
        "inference_3: 1 compiled, 0 host kernels",
        "  no device graph, since its forward is none",
        "inference_4: 1 compiled, 0 host kernels",
        "inference_5: 1 compiled, 0 host kernels",
        f"  {off}",
    ]


def test_a_part_that_is_no_graph_for_what_it_gives_is_told_of(caplog):
    def function(x):
        return x.view(4).t(), (x + 1).cpu() * 2  # the first gives a view of what it takes

    with caplog.at_level("DEBUG", logger="kiln"):
        cut = Cut(traced(function, "cuda"))
    said = [record.getMessage() for record in caplog.records]
    assert cut.choice.parts == []
    assert any("reason=takes or gives what is no tensor" in text for text in said)
    assert "Created 2 graph partitions: 0 cudagraphable, 2 non-cudagraphable" in said
    assert any("takes or gives what is no tensor" in text for text in cut.choice.cuts)


def test_a_backward_keeps_the_addresses_of_its_forwards_parameters_alone(monkeypatch):
    monkeypatch.setattr(graph_choice, "_static_inputs", lambda: [1])
    chooser = Chooser({**OPTIONS, "cudagraphs": True})
    forward = traced(lambda x, weight: x * weight, "cuda", "cuda")
    backward = traced(lambda saved, weight, tangent: saved * weight * tangent, *["cuda"] * 3)
    assert chooser.choose(forward, "forward").facts["static"] == [1]
    assert chooser.choose(backward, "backward").facts["static"] == [1]


class _Host:
    """A device on which everything is a warm-up."""

    calls, marks = GraphDevice.calls, GraphDevice.marks
    pool_name = "(0, 1)"

    def __init__(self):
        self.notes = []

    def warm_up(self, body, inputs):
        return body(inputs)

    thread, stream_of = GraphDevice.thread, int

    def take_another_pool(self):
        return False

    def note(self, kind, function, text):
        self.notes.append(text)


def _body(inputs):
    result = inputs[0] + 1
    inputs.clear()
    return [result]


def _add(tree, mutated=(), **options):
    given = 0, _body, [0], [], list(mutated), [], ["x"], [None], [None], "x.add_(1)"
    return tree.add(*given, options)


def test_a_tree_calls_its_functions():
    service.load_library()
    host = _Host()
    tree = _native.GraphTree(host)
    called = _add(tree, always_warm_up=1)
    inputs = [torch.zeros(3)]
    (result,) = called(inputs)
    assert inputs == []
    assert torch.equal(result, torch.ones(3))
    assert tree.report()["warm_ups"] == 1
    with pytest.raises(TypeError):
        called(torch.zeros(3))
    tree.shutdown()
    with pytest.raises(kiln.KilnError, match="Running CUDAGraph after shutdown"):
        called([torch.zeros(3)])


def test_a_tree_tells_why_a_function_has_no_graph():
    service.load_library()
    host = _Host()
    tree = _native.GraphTree(host)
    called = _add(tree, mutated=[0])
    for _ in range(2):
        called([torch.zeros(3)])
    assert host.notes == [
        "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n x.add_(1)"
    ]
    assert tree.report()["plain_runs"] == 2
    assert tree.nodes() == []


def test_an_error_of_a_function_is_its_own():
    service.load_library()
    tree = _native.GraphTree(_Host())

    def fails(inputs):
        raise LookupError("not today")

    called = tree.add(0, fails, [0], [], [], [], ["x"], [None], [None], "", {})
    with pytest.raises(LookupError, match="not today"):
        called([torch.zeros(3)])
    assert tree.report()["state"] == 0
