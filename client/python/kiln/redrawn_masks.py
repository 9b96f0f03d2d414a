"""Attention with dropout: its backward draws the mask of its forward again, so one has to run both.

Kiln's kernels draw other numbers from a seed than PyTorch's. Within a graph both halves are put in
one place: ``torn_apart`` names those to be left to PyTorch. Of a forward and a backward that are two
graphs each may end in PyTorch by itself (a refusal, a fork); what the forward saves tells who drew:
the offset is int64 if Kiln did, and the same bits as uint64 if PyTorch did. Reading a dtype waits
for no GPU.

    program = guarded(program, name, recipe.masks, in_pytorch)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from . import _native
from .config import switched_on
from .counters import counters
from .telling import tell
from .torch_inside import graphsafe_run_with_rng_state, untraced

_aten = torch.ops.aten
_BY_PYTORCH = torch.uint64


@dataclass(frozen=True)
class _Halves:
    """An attention's operators. Where the offset stands among the results and the arguments (the
    seed stands in front of it), where dropout_p, and the dtype that PyTorch has of both."""

    forward: torch._ops.OpOverload
    backward: torch._ops.OpOverload
    given: int
    taken: int
    forward_dropout: int
    backward_dropout: int
    dtype: torch.dtype = torch.int64


_ALL = (
    _Halves(
        _aten._scaled_dot_product_cudnn_attention.default,
        _aten._scaled_dot_product_cudnn_attention_backward.default,
        given=7, taken=7, forward_dropout=5, backward_dropout=13,
    ),
    _Halves(
        _aten._scaled_dot_product_flash_attention.default,
        _aten._scaled_dot_product_flash_attention_backward.default,
        given=7, taken=13, forward_dropout=3, backward_dropout=10, dtype=torch.uint64,
    ),
    _Halves(
        _aten._scaled_dot_product_efficient_attention.default,
        _aten._scaled_dot_product_efficient_attention_backward.default,
        given=3, taken=8, forward_dropout=5, backward_dropout=9,
    ),
)
_OF_BACKWARD = {halves.backward: halves for halves in _ALL}

_UNIMPLEMENTED = 12  # proto/base/status.h
_LOST = (
    "PyTorch is to run the backward of an attention whose dropout Kiln drew in the forward, "
    "and would draw another"
)
_CURE = "compile with options={'fallback_random': True}, which leaves both to PyTorch"


class MaskLost(Exception):
    """PyTorch is to run the backward of an attention whose mask Kiln drew."""


def _argument(name: str, place: int, args: Sequence, kwargs: Mapping) -> object:
    return args[place] if len(args) > place else kwargs.get(name, 0.0)


def _forward_in_pytorch(halves: _Halves) -> Callable[..., object]:
    def forward(*args: object, **kwargs: object) -> object:
        results = halves.forward(*args, **kwargs)
        if _argument("dropout_p", halves.forward_dropout, args, kwargs) == 0:
            return results
        given = list(results)
        given[halves.given] = given[halves.given].view(_BY_PYTORCH)
        return tuple(given)

    return forward


def _backward_in_pytorch(halves: _Halves) -> Callable[..., object]:
    def backward(*args: object, **kwargs: object) -> object:
        taken = list(args)
        drops = _argument("dropout_p", halves.backward_dropout, args, kwargs) != 0
        if drops and taken[halves.taken].dtype != _BY_PYTORCH:
            raise MaskLost
        for place in (halves.taken - 1, halves.taken):
            taken[place] = taken[place].view(halves.dtype)
        return halves.backward(*taken, **kwargs)

    return backward


# Of a checkpoint's operators, which call another; they take any function.
def _run_and_save(called: object, *args: object, **kwargs: object) -> object:
    return run_and_save_rng_state(in_pytorch(called), *args, **kwargs)


def _run_with(state: object, called: object, *args: object, **kwargs: object) -> object:
    return run_with_rng_state(state, in_pytorch(called), *args, **kwargs)


def _graphsafe_run_with(called: object, *args: object, **kwargs: object) -> object:
    return graphsafe_run_with_rng_state(in_pytorch(called), *args, **kwargs)


_IN_PYTORCH = {
    **{halves.forward: _forward_in_pytorch(halves) for halves in _ALL},
    **{halves.backward: _backward_in_pytorch(halves) for halves in _ALL},
    run_and_save_rng_state: _run_and_save,
    run_with_rng_state: _run_with,
    graphsafe_run_with_rng_state: _graphsafe_run_with,
}


def in_pytorch(target: object) -> object:
    """What PyTorch runs for an operator, so that what it gives tells that PyTorch drew."""
    return _IN_PYTORCH.get(target, target)


def _redraws(node: fx.Node) -> bool:
    halves = _OF_BACKWARD.get(node.target)
    if halves is None:
        return False
    return bool(_argument("dropout_p", halves.backward_dropout, node.args, node.kwargs))


def _source(node: fx.Node) -> fx.Node:
    """The attention whose offset a backward takes, or the input that it comes by."""
    source = node.args[_OF_BACKWARD[node.target].taken]
    while source.target in (operator.getitem, _aten.detach.default, _aten.alias.default):
        source = source.args[0]
    return source


def torn_apart(segments: Iterable[Iterable[fx.Node]], graph: fx.Graph) -> dict[str, str]:
    """The nodes that PyTorch has to run, and why: halves of one attention that are in a graph, but
    not in one of its ``segments``."""
    within = {node: number for number, nodes in enumerate(segments) for node in nodes}
    shared: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        if _redraws(node):
            source = _source(node)
            shared.setdefault(source, [source] if source.op == "call_function" else []).append(node)
    refused = {}
    for nodes in shared.values():
        if nodes[0].op == "call_function" and len({within.get(node) for node in nodes}) > 1:
            for node in nodes:
                if node in within:
                    why = "its dropout has one mask with an attention that is not in its segment"
                    refused[node.name] = f"{node.target}: {why}"
    return refused


def redrawn(graph: fx.Graph, ours: Iterable[fx.Node]) -> list[tuple[int | None, bool]]:
    """Of each backward of attention with dropout: the place among the inputs of its mask's offset,
    None where its forward is in the same graph; and whether PyTorch runs it. ``ours``: what Kiln runs."""
    inputs = {node: place for place, node in enumerate(graph.find_nodes(op="placeholder"))}
    inside = set(ours)
    return [
        (inputs.get(_source(node)), node not in inside) for node in graph.nodes if _redraws(node)
    ]


def _error(name: str, why: str) -> _native.Error:
    return _native.Error(_UNIMPLEMENTED, "UNSUPPORTED_OP", f"graph {name}: {why}: {_CURE}")


def lost_mask(name: str) -> _native.Error:
    """What a call ends with in which PyTorch is to draw a mask of Kiln's again."""
    return _error(name, _LOST)


Program = Callable[[list], Sequence]


def naming(program: Program, name: str) -> Program:
    """`program`, whose error for a mask that PyTorch cannot draw names the graph."""

    @untraced
    def run(args: list) -> Sequence:
        try:
            return program(args)
        except MaskLost:
            raise lost_mask(name) from None

    return run


def guarded(
    program: Program,
    name: str,
    masks: Sequence[tuple[int | None, bool]],
    make_eager: Callable[[], Program],
) -> Program:
    """`program` of the graph `name`, or where PyTorch drew the masks of its forward, the same in
    PyTorch, after a warning. Raises a KilnError where neither can draw all of them again, and in
    place of the warning under ``KILN_STRICT=1``."""
    if not masks:
        return program
    saved = [(place, by_pytorch) for place, by_pytorch in masks if place is not None]
    why = "PyTorch ran the forward of its attention, and drew the dropout"
    made: list[Program] = []

    @untraced
    def run(args: list) -> Sequence:
        drawn = [args[place].dtype == _BY_PYTORCH for place, _ in saved]
        if all(mine == due for mine, (_, due) in zip(drawn, saved)):
            return program(args)
        if not all(drawn):
            raise MaskLost
        if switched_on("KILN_STRICT"):
            raise _error(name, why)
        if not made:
            counters.add("eager_graphs")
            tell(f"graph {name} runs in eager mode: {why}")
            made.append(make_eager())
        return made[0](args)

    return naming(run, name)
