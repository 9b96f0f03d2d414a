"""Nodes of a graph as Dynamo traced it, before autograd."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

_IN_PLACE = frozenset(
    f"i{name}"
    for name in ("add", "and", "concat", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow")
) | {"irshift", "isub", "itruediv", "ixor"}
_DUNDERS = frozenset(f"__{name}__" for name in (*_IN_PLACE, "setitem", "delitem"))
_NORMS = ("batch_norm", "instance_norm")  # they may keep what they see of batches
# They change how later nodes are differentiated, or whether.
_MODES = ("_set_grad_enabled", "_enter_inference_mode", "_exit_inference_mode")


def value_of(node: object) -> torch.Tensor | None:
    """The fake tensor that a node gives, if it gives one."""
    value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def equal_sizes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dim() == b.dim() and all(statically_known_true(i == j) for i, j in zip(a.shape, b.shape))


def _writes_by_schema(schemas: Iterable[torch.FunctionSchema], words: Iterable[str]) -> bool:
    """Whether one of them writes to an argument; to results that a caller may give, only where given."""
    return any(
        argument.alias_info is not None
        and argument.alias_info.is_write
        and (not argument.is_out or argument.name in words)
        for schema in schemas
        for argument in schema.arguments
    )


@functools.cache
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    """None of most that is not written in Python."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _writes_by_argument(node: fx.Node) -> bool:
    """Whether an argument, with or without its name, has a function write to another."""
    given = dict(node.kwargs)
    signature = _signature(node.target) if callable(node.target) else None
    if signature is not None:
        try:
            given |= signature.bind(*node.args, **node.kwargs).arguments
        except TypeError:
            return True
    return (
        given.get("inplace", False) is not False
        or given.get("out") is not None
        or given.get("max_norm") is not None  # an embedding scales rows of its weight
    )


def may_write(node: fx.Node) -> bool:
    """Whether a node may write to a tensor, or changes how later ones are differentiated."""
    if node.op not in ("call_function", "call_method"):
        return node.op == "call_module"
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.is_mutable or target._schema.name.endswith(_NORMS)
    if isinstance(target, torch._ops.OpOverloadPacket):
        schemas = (getattr(target, name)._schema for name in target.overloads())
        return _writes_by_schema(schemas, node.kwargs)
    if isinstance(target, torch._ops.OperatorBase):
        return True  # of other graphs or kernels
    name = target if isinstance(target, str) else getattr(target, "__name__", "_")
    if name.endswith("_") and (not name.endswith("__") or name in _DUNDERS) or name in _MODES:
        return True
    if getattr(target, "__module__", "") == "_operator":
        return name in _IN_PLACE or target in (operator.setitem, operator.delitem)
    return name.endswith(_NORMS) or _writes_by_argument(node)
