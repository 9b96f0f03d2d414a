"""Nodes of a joint graph, before it is cut: what is known of them, and new ones."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .fx_export import value_of

# What a new node does not inherit of the one that it stands for.
_OWN_META = ("val", "tensor_meta", "unbacked_bindings")


def call(
    graph: fx.Graph, meta: dict, target: torch._ops.OpOverload, *args: object, **words: object
) -> fx.Node:
    """An operator with its fake result, where the graph inserts. The cut treats it as it would the
    node whose ``meta`` it gets: checkpointed or not, of the forward or of the backward."""
    node = graph.call_function(target, args, words)
    node.meta = {key: value for key, value in meta.items() if key not in _OWN_META}
    node.meta["val"] = target(*fx.node.map_arg(args, value_of), **words)
    return node


def same_layout(mine: torch.Tensor, due: torch.Tensor) -> bool:
    """Whether two tensors have one dtype, device, sizes and strides, whatever the symbols are."""
    if mine.dtype != due.dtype or mine.device != due.device or mine.dim() != due.dim():
        return False
    pairs = zip((*mine.size(), *mine.stride()), (*due.size(), *due.stride()))
    return all(statically_known_true(found == wanted) for found, wanted in pairs)


def storages(nodes: Iterable[fx.Node]) -> set[int]:
    """What the tensors of nodes are in, one number each."""
    found = set()
    for value in map(value_of, nodes):
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                found.add(tensor.untyped_storage()._cdata)
    return found


def is_view(node: fx.Node) -> bool:
    """Whether an operator gives a view of its operand."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    returns = node.target._schema.returns
    info = returns[0].alias_info if returns else None
    return info is not None and not info.is_write


def mutates(node: fx.Node) -> bool:
    """Whether a node writes to its first argument: what AOTAutograd leaves of mutated inputs."""
    return node.target is torch.ops.aten.copy_.default


def of_forward(graph: fx.Graph, num_fwd_outputs: int | None) -> set[fx.Node]:
    """What the forward's results are made of: the first of the graph's, or all. What is written to
    an input is one of them."""
    (output,) = graph.find_nodes(op="output")
    pending = [node for node in output.args[0][:num_fwd_outputs] if isinstance(node, fx.Node)]
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        if node.meta.get("partitioner_tag") != "must_be_in_backward":
            pending.append(node)
    forward: set[fx.Node] = set()
    while pending:
        node = pending.pop()
        if node not in forward:
            forward.add(node)
            pending += node.all_input_nodes
    return forward


def needed_by_backward(graph: fx.Graph, num_fwd_outputs: int) -> set[fx.Node]:
    """The nodes of the forward from which a path leads to one that the forward does not need."""
    (output,) = graph.find_nodes(op="output")
    forward = of_forward(graph, num_fwd_outputs)
    leads: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        users = [user for user in node.users if user is not output]
        if any(user not in forward or user in leads for user in users):
            leads.add(node)
    # What only the backward reads of the forward's inputs is there in the forward too.
    return {node for node in leads if node in forward or node.op == "placeholder"}
