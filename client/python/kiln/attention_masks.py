"""Masks of attention as PyTorch's fused operators take them.

``scaled_dot_product_attention`` takes a mask whose last dimension is stretched (stride 0) apart into
float32 products: no fused operator of a GPU has it. Transformers makes such masks while Dynamo traces
(a row of trues, expanded). Laid out row by row they stay whole."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import fx


def _mask_of(node: fx.Node) -> fx.Node | None:
    mask = node.kwargs.get("attn_mask", node.args[3] if len(node.args) > 3 else None)
    return mask if isinstance(mask, fx.Node) else None


def _has_stretched_mask(node: fx.Node) -> bool:
    if node.op != "call_function" or node.target is not F.scaled_dot_product_attention:
        return False
    mask = _mask_of(node)
    value = None if mask is None else mask.meta.get("example_value")
    if not isinstance(value, torch.Tensor) or value.device.type != "cuda" or value.dim() == 0:
        return False
    return value.stride(-1) == 0 and not value.requires_grad


def lay_out_masks(module: fx.GraphModule) -> None:
    """Of the module as Dynamo traced it: each mask on a GPU whose last dimension is stretched is copied row
    by row before its attention."""
    stretched = [node for node in module.graph.nodes if _has_stretched_mask(node)]
    for node in stretched:
        mask = _mask_of(node)
        with module.graph.inserting_before(node):
            rows = module.graph.call_method("contiguous", (mask,))
        node.replace_input_with(mask, rows)
    if stretched:
        module.recompile()
