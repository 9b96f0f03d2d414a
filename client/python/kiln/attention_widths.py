"""Widths of attention's heads as numbers.

A kernel of attention is made for one width of its heads, and the scale of its scores follows from it.
With ``dynamic=True`` a width may be a symbol: then the graph is compiled for the width at hand, and
PyTorch guards it. Other sizes stay symbols, and so do widths that the user marked as dynamic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import fx

from .traced_nodes import value_of


def _is_marked(size: torch.SymInt) -> bool:
    """Whether ``mark_dynamic`` names this size, so that PyTorch refuses to have it fixed."""
    for tracked in size.node.shape_env.tracked_fakes or ():
        constraints = getattr(tracked.symbolic_context, "constraint_sizes", None) or ()
        for dim, constraint in enumerate(constraints):
            marked = None if constraint is None else tracked.fake.shape[dim]
            if isinstance(marked, torch.SymInt) and marked.node.expr == size.node.expr:
                return True
    return False


def _fix(width: int | torch.SymInt) -> None:
    if isinstance(width, torch.SymInt) and not _is_marked(width):
        int(width)  # takes a guard, and the symbol becomes the number


def fix_widths(module: fx.GraphModule) -> None:
    """Guards the widths of the attention of a module as Dynamo traced it."""
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is not F.scaled_dot_product_attention:
            continue
        for operand in (*node.args[:3], *(node.kwargs.get(name) for name in ("query", "key", "value"))):
            value = value_of(operand)
            if value is not None and value.dim() > 0:
                _fix(value.shape[-1])
