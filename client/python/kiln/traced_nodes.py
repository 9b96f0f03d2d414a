"""Nodes of a graph as Dynamo traced it, before autograd."""

from __future__ import annotations

import operator

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

_IN_PLACE = frozenset(
    f"i{name}"
    for name in ("add", "and", "concat", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow")
) | {"irshift", "isub", "itruediv", "ixor"}


def value_of(node: object) -> torch.Tensor | None:
    """The fake tensor that a node gives, if it gives one."""
    value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def equal_sizes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dim() == b.dim() and all(statically_known_true(i == j) for i, j in zip(a.shape, b.shape))


def may_write(node: fx.Node) -> bool:
    """Whether a node may write to a tensor, or changes how later ones are differentiated."""
    if node.target in (torch._C._set_grad_enabled, operator.setitem):
        return True
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "_")
    in_place = name.endswith("_") and not name.endswith("__")
    in_place |= getattr(node.target, "__module__", "") == "_operator" and name in _IN_PLACE
    return in_place or bool(node.kwargs.get("inplace")) or "out" in node.kwargs
