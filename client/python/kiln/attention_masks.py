"""Masks of attention as PyTorch's fused operators take them.

``scaled_dot_product_attention`` takes a mask whose last dimension is stretched (stride 0) apart into
float32 products: no fused operator of a GPU has it. Transformers makes such masks while Dynamo traces
(a row of trues, expanded). With such a boolean mask a query sees all keys or none: the attention goes
without a mask, and rows that see none are 0, as those products have it. A mask that is added is laid
out row by row."""

from __future__ import annotations

import operator

import torch
import torch.nn.functional as F
from torch import fx

from .traced_nodes import value_of


def _mask_of(node: fx.Node) -> fx.Node | None:
    mask = node.kwargs.get("attn_mask", node.args[3] if len(node.args) > 3 else None)
    return mask if isinstance(mask, fx.Node) else None


def _has_stretched_mask(node: fx.Node) -> bool:
    if node.op != "call_function" or node.target is not F.scaled_dot_product_attention:
        return False
    value = value_of(_mask_of(node))
    if value is None or value.device.type != "cuda" or value.dim() == 0:
        return False
    return value.stride(-1) == 0 and not value.requires_grad


def _drop_mask(node: fx.Node, mask: fx.Node) -> None:
    """Of an attention whose queries see all keys or none."""
    graph = node.graph
    with graph.inserting_after(node):
        seen = graph.call_function(operator.getitem, (mask, (Ellipsis, slice(None, 1))))
    with graph.inserting_after(seen):
        result = graph.call_function(torch.where, (seen, node, 0))
    result.meta = dict(node.meta)
    node.replace_all_uses_with(result, delete_user_cb=lambda user: user is not result)
    node.replace_input_with(mask, None)


def lay_out_masks(module: fx.GraphModule) -> None:
    """Rewrites the attention of a module, as Dynamo traced it, that has a stretched mask on a GPU."""
    stretched = [node for node in module.graph.nodes if _has_stretched_mask(node)]
    for node in stretched:
        mask = _mask_of(node)
        if mask.meta["example_value"].dtype == torch.bool:
            _drop_mask(node, mask)
            continue
        with module.graph.inserting_before(node):
            rows = module.graph.call_method("contiguous", (mask,))
        node.replace_input_with(mask, rows)
    if stretched:
        module.recompile()
