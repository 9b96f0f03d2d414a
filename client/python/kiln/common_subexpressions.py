"""Operators of a joint graph that compute the same: one is enough.

    merge_equal(graph)

Before the graph is cut in two, so that nothing is saved twice. What autocast casts for each of its
readers, and what a checkpoint computes again, are most of it. AOTAutograd's own pass would do, but
imports all of Inductor's lowerings, more than the whole cut takes beside.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from .joint_nodes import storages

_aten = torch.ops.aten
_OURS = ("aten", "prims")  # operators of others may do more than they say
_NUMBERS = {operator.getitem, operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod}
# Two of them are two places in memory, filled later.
_UNFILLED = {
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_strided.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
}


def _may_merge(node: fx.Node) -> bool:
    target = node.target
    if target in _NUMBERS:
        return True
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace in _OURS
        and target not in _UNFILLED
        and torch.Tag.nondeterministic_seeded not in target.tags
        and not node.meta.get("unbacked_bindings")
    )


def _key_of(argument: object) -> object:
    """Equal for equal arguments alone: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(argument, (list, tuple)):
        return tuple(map(_key_of, argument))
    if isinstance(argument, dict):
        return tuple((name, _key_of(value)) for name, value in argument.items())
    if isinstance(argument, float):
        return argument.hex()
    return argument if isinstance(argument, fx.Node) else (type(argument), argument)


def merge_equal(graph: fx.Graph) -> None:
    """Leaves the first of operators that are equal, in place. Two results that leave the graph stay
    two, and what reads an input before it is written is not what reads it after."""
    (output,) = graph.find_nodes(op="output")
    leaving = storages(output.all_input_nodes)
    first: dict[object, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            first.clear()
        if not _may_merge(node) or storages([node]) & leaving:
            continue
        try:
            same = first.setdefault((node.target, _key_of(node.args), _key_of(node.kwargs)), node)
        except TypeError:  # a slice, or what else has no hash
            continue
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)
