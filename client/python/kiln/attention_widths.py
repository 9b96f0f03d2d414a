"""Widths of attention's heads as numbers.

A kernel of attention is made for one width of its heads, and the scale of its scores follows from it.
With ``dynamic=True`` a width may be a symbol: then the graph is compiled for the width at hand, and
PyTorch guards it. Other sizes stay symbols."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import fx


def fix_widths(module: fx.GraphModule) -> None:
    """Guards the widths of the attention of a module as Dynamo traced it."""
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is not F.scaled_dot_product_attention:
            continue
        for operand in (*node.args[:3], *(node.kwargs.get(name) for name in ("query", "key", "value"))):
            value = operand.meta.get("example_value") if isinstance(operand, fx.Node) else None
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                int(value.shape[-1])  # of a symbol: takes a guard, and the symbol becomes the number
