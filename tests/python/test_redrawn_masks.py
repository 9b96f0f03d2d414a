"""The dropout of attention is one in forward and backward, whoever runs each, or the call is an
error."""

import functools
import warnings
from types import SimpleNamespace

import cudnn_stand_in  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import kiln
from kiln import graph_trees
from kiln.compiled_graph import CompiledGraph, recording
from kiln.eager_segment import EagerSegment
from kiln.recipe import Recipe
from kiln.redrawn_masks import MaskLost, in_pytorch
from kiln.torch_inside import keeps_any_backend
from processes import HERE, answer_of, start
from refusals import refuse

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_cudnn_attention.default
BACKWARD = aten._scaled_dot_product_cudnn_attention_backward.default

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")),
]


@pytest.fixture(autouse=True)
def graphs_of_its_own():
    """AOTAutograd's cache gives a test no graph of another."""
    with torch._functorch.config.patch(enable_autograd_cache=False):
        yield


def attend(q, v, p=0.5):
    if q.device.type == "cpu":
        return FORWARD(q, q, v, None, True, p)[0]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return F.scaled_dot_product_attention(q, q, v, dropout_p=p)


def inputs_on(device):
    """Of equal weights, values that are the unit matrix show which ones are left."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    q = torch.zeros(2, 4, 64, 64, device=device, dtype=dtype)
    eye = torch.eye(64, device=device, dtype=dtype).expand(2, 4, 64, 64).contiguous()
    return q, eye.clone().requires_grad_(), eye


def assert_one_mask(fn, device="cpu"):
    q, v, eye = inputs_on(device)
    y = fn(q, v)
    y.backward(eye)
    left = y.detach() != 0
    assert torch.equal(left, v.grad.mT != 0)
    assert abs(left.float().mean().item() - 0.5) < 0.05


def compiled(fn=attend, **options):
    return torch.compile(fn, backend="kiln", fullgraph=True, options=options)


def assert_lost(fn, device="cpu"):
    q, v, eye = inputs_on(device)
    y = fn(q, v)
    with pytest.raises(kiln.KilnError, match="fallback_random") as raised:
        y.backward(eye)
    code, reason, words = raised.value.args
    assert (code, reason) == (12, "UNSUPPORTED_OP")
    assert words.startswith("graph backward_") and "would draw another" in words
    assert v.grad is None


def test_the_stand_in_draws_the_mask_of_its_forward_again():
    assert_one_mask(attend)


@pytest.mark.parametrize("device", DEVICES)
def test_kiln_draws_the_mask_of_its_forward_again(device):
    with recording() as graphs:
        assert_one_mask(compiled(), device)
    assert [graph.hosts for graph in graphs] == [{}, {}]


@pytest.mark.parametrize("device", DEVICES)
def test_with_fallback_random_both_halves_are_pytorchs(device):
    with recording() as graphs:
        assert_one_mask(compiled(fallback_random=True), device)
    assert [len(graph.hosts) for graph in graphs] == [1, 1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore:kiln. graph")
def test_a_backward_that_is_refused_does_not_draw_another_mask(device, monkeypatch):
    refuse(monkeypatch, "backward")
    assert_lost(compiled(), device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore:kiln. graph")
def test_without_dropout_a_backward_that_is_refused_runs(device, monkeypatch):
    refuse(monkeypatch, "backward")
    q, v, eye = inputs_on(device)
    compiled(functools.partial(attend, p=0.0))(q, v).backward(eye)
    assert v.grad.ne(0).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore:kiln. graph")
def test_both_refused_are_pytorchs(device, monkeypatch):
    refuse(monkeypatch, ("forward", "backward"))
    assert_one_mask(compiled(), device)


@pytest.mark.parametrize("device", DEVICES)
def test_the_backward_of_a_forward_that_was_refused_runs_in_pytorch(device, monkeypatch):
    refuse(monkeypatch, "forward")
    fn = compiled()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            assert_one_mask(fn, device)
    forward, backward = [str(w.message) for w in seen if "kiln" in str(w.message)]
    assert "graph backward_" in backward and "PyTorch ran the forward" in backward


@pytest.mark.filterwarnings("ignore:kiln. graph")
def test_strictly_such_a_backward_is_an_error(monkeypatch):
    refuse(monkeypatch, "forward")
    fn = compiled()
    q, v, eye = inputs_on("cpu")
    y = fn(q, v)
    monkeypatch.setenv("KILN_STRICT", "1")
    with pytest.raises(kiln.KilnError, match="graph backward_.*PyTorch ran the forward"):
        y.backward(eye)


@pytest.mark.filterwarnings("ignore:kiln. graph")
def test_one_backward_operator_that_is_refused_does_not_draw_another_mask(monkeypatch):
    compile_ = CompiledGraph._write

    def refused(graph):
        for node in graph.module.graph.find_nodes(op="call_function", target=BACKWARD):
            graph._refused[node.name] = "of the test"
        return compile_(graph)

    monkeypatch.setattr(CompiledGraph, "_write", refused)
    assert_lost(compiled())


@pytest.mark.parametrize("half", ["forward", "backward"])
@pytest.mark.filterwarnings("ignore:kiln. graph")
def test_a_call_that_no_artifact_serves_does_not_draw_another_mask(half, monkeypatch):
    init = EagerSegment.__init__

    def unserved(segment, graph, recipe_of):
        init(segment, graph, recipe_of)
        if graph.startswith(half):
            segment.unserved.add(())
            segment.knows = lambda inputs: True

    monkeypatch.setattr(EagerSegment, "__init__", unserved)
    monkeypatch.setenv("KILN_STRICT", "0")
    (assert_lost if half == "backward" else assert_one_mask)(compiled())


def recomputed(context, op, *args, **kwargs):
    return CheckpointPolicy.MUST_RECOMPUTE


CHECKPOINTS = {
    "whole": {"use_reentrant": False},
    "reentrant": {"use_reentrant": True},
    "selected": {
        "use_reentrant": False,
        "context_fn": functools.partial(create_selective_checkpoint_contexts, recomputed),
    },
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_checkpoint_draws_the_mask_again(kind, device):
    def fn(q, v):
        return checkpoint(lambda q, v: attend(q, v * 1).sin(), q, v, **CHECKPOINTS[kind])

    assert_one_mask(torch.compile(fn, backend="kiln", fullgraph=kind != "reentrant"), device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("frozen", [False, True], ids=["learned", "frozen"])
def test_what_is_compiled_within_a_checkpoint_draws_the_mask_again(frozen, device):
    """The first run is without gradients; the second has them, or, with frozen inputs, needs none."""
    q, v, eye = inputs_on(device)
    weight = torch.ones_like(v, requires_grad=True)
    layer, values = compiled(), v.detach() if frozen else v
    y = checkpoint(lambda v, weight: layer(q, v) * weight, values, weight, use_reentrant=True)
    y.backward(torch.ones_like(eye))
    assert torch.equal(y.detach() != 0, weight.grad != 0)
    assert abs((weight.grad != 0).float().mean().item() - 0.5) < 0.05


def both_halves(q, v, eye, between):
    results = FORWARD(q, q, v, None, True, 0.5)
    out, logsumexp, seed, offset = (results[place] for place in (0, 1, 6, 7))
    none, bias = torch.empty(0), torch.zeros_like(q)
    grads = BACKWARD(between(eye), q, q, v, out, logsumexp, seed, offset, bias, none, none, 64, 64, 0.5, False)
    return out, grads[2]


@pytest.mark.parametrize("between", [torch.clone, torch.linalg.inv], ids=["one segment", "two segments"])
def test_halves_in_one_graph_are_in_one_segment_or_pytorchs(between):
    q, v, eye = inputs_on("cpu")
    with recording() as graphs:
        out, grad = compiled(functools.partial(both_halves, between=between))(q, v.detach(), eye)
    assert torch.equal(out != 0, grad.mT != 0)
    apart = sum("one mask with an attention" in why for why in graphs[0].hosts.values())
    assert apart == (0 if between is torch.clone else 2)


@pytest.mark.parametrize("masks", [[], [(0, False)]], ids=["no mask", "a mask"])
def test_calls_of_a_device_graph_are_looked_at_first_where_masks_are_drawn_again(masks, monkeypatch):
    monkeypatch.setattr(graph_trees.GraphFunction, "direct", lambda function, inputs: list)

    class Graph:
        device, graph_functions, choice = torch.device("cuda"), [], SimpleNamespace(options={})
        trace, _run = "", None

    graph = Graph()
    called = graph_trees.graphed(
        list, Recipe(1, 1, [], [], [], masks=masks), {"mode": 0, "integers": []}, graph
    )
    assert called([1]) == [1]
    assert graph._run is (None if masks else list)


@pytest.mark.filterwarnings("ignore:kiln. graph")
def test_a_backward_in_a_forked_child_does_not_draw_another_mask():
    fn = compiled()

    def enters_child(q, v):
        with recording() as graphs:
            y = fn(q, v)
        backward = next(graph for graph in graphs if graph.name.startswith("backward"))
        backward.wait()
        backward._enter_child()  # PyTorch itself runs no backward in a process that was forked
        return y

    assert_lost(enters_child)


PROGRAM = """
import json, sys, torch
import kiln
from test_redrawn_masks import assert_one_mask, attend
for drawn_by in ("kiln", "pytorch"):
    fn = torch.compile(attend, backend="kiln", options={"fallback_random": drawn_by == "pytorch"})
    assert_one_mask(fn)
    torch._dynamo.reset()
print(json.dumps(dict(kiln.counters)))
"""


def test_graphs_from_a_cache_draw_the_masks_of_their_forwards(folders):
    for start_of in ("cold", "warm"):
        done, _ = answer_of(start(PROGRAM, **HERE, **folders))
        assert done["host_kernels"] == 2
        if start_of == "warm":
            assert not keeps_any_backend() or not done.get("compiles")


FLASH = (aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_flash_attention_backward.default)
EFFICIENT = (
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_efficient_attention_backward.default,
)


def flash_halves(p, backward=FLASH[1], forward=FLASH[0], as_kiln_gives_them=False):
    q, v, eye = inputs_on("cpu")
    out, logsumexp, _, _, m, n, state, offset, _ = forward(q, q, v.detach(), p, False)
    if as_kiln_gives_them:
        state, offset = state.view(torch.int64), offset.view(torch.int64)
    grads = backward(eye, q, q, v.detach(), out, logsumexp, None, None, m, n, p, False, state, offset)
    return out, offset, grads[2]


def efficient_halves(p, backward=EFFICIENT[1], forward=EFFICIENT[0], as_kiln_gives_them=False):
    q, v, eye = inputs_on("cpu")
    out, logsumexp, seed, offset = forward(q, q, v.detach(), None, True, p)
    if as_kiln_gives_them:
        offset = offset.view(torch.int64)
    asked = [True, True, True, False]
    grads = backward(eye, q, q, v.detach(), None, out, logsumexp, seed, offset, p, asked)
    return out, offset, grads[2]


@pytest.mark.parametrize("halves, operators", [(flash_halves, FLASH), (efficient_halves, EFFICIENT)])
def test_other_operators_tell_too_who_drew(halves, operators):
    forward, backward = map(in_pytorch, operators)
    out, offset, grad = halves(0.5, backward, forward)
    assert offset.dtype == torch.uint64 and torch.equal(out != 0, grad.mT != 0)
    with pytest.raises(MaskLost):
        halves(0.5, backward, forward, as_kiln_gives_them=True)
    # Without dropout nobody draws, and PyTorch gets its own dtypes.
    assert halves(0.0, backward, forward, as_kiln_gives_them=True)[2].ne(0).all()
