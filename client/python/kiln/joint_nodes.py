"""New nodes in a joint graph, before it is cut."""

from __future__ import annotations

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
