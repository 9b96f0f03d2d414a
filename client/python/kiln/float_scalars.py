"""Numbers that a call's sizes make, as operands: ``x * (2.0 / (x.shape[0] - 1))``.

    compute_float_scalars(module)

A graph on the wire has integers of its sizes, and no such fractions. So each becomes a float64 tensor
without dimensions that the graph computes; an operator computes with it as with a number of Python's.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import sympy
import torch
from torch import fx
from torch._guards import detect_fake_mode

from .expressions import operation_of
from .fx_export import value_of
from .joint_nodes import call

_aten = torch.ops.aten
# What computes with a tensor and a number, and with two tensors alike.
_OPERATORS = {
    _aten.add.Tensor: _aten.add.Tensor,
    _aten.add.Scalar: _aten.add.Tensor,
    _aten.sub.Tensor: _aten.sub.Tensor,
    _aten.sub.Scalar: _aten.sub.Tensor,
    _aten.mul.Tensor: _aten.mul.Tensor,
    _aten.mul.Scalar: _aten.mul.Tensor,
    _aten.div.Tensor: _aten.div.Tensor,
    _aten.div.Scalar: _aten.div.Tensor,
}
# Of tensors without dimensions, and how Python computes them.
_FOLDED = {
    "add": (_aten.add.Tensor, operator.add),
    "mul": (_aten.mul.Tensor, operator.mul),
    "truediv": (_aten.div.Tensor, operator.truediv),
}
_UNARY = {"sqrt": _aten.sqrt.default, "exp": _aten.exp.default, "log": _aten.log.default}
_HALVES = (torch.float16, torch.bfloat16)

Part = fx.Node | float


class _Writer:
    """Writes expressions of one graph's sizes as nodes, each once, where they are first wanted."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._sizes = {
            value_of(node).node.expr: node
            for node in graph.find_nodes(op="placeholder")
            if isinstance(value_of(node), torch.SymInt)
        }
        self._written: dict[tuple[sympy.Expr, torch.device], fx.Node] = {}

    def write(self, expr: sympy.Expr, like: fx.Node) -> fx.Node:
        """A float64 tensor on the device of ``like``, in front of it. LookupError where an operation or a
        size of the expression is not at hand."""
        device = value_of(like).device
        with self._graph.inserting_before(like):
            part = self._part(expr, device, functools.partial(call, self._graph, like.meta))
        if not isinstance(part, fx.Node):
            raise LookupError(f"{expr}: a number")
        return part

    def _part(self, expr: sympy.Expr, device: torch.device, make: Callable[..., fx.Node]) -> Part:
        if expr.is_number:
            return float(expr)
        found = self._written.get((expr, device))
        if found is None:
            found = self._written[expr, device] = self._new(expr, device, make)
        return found

    def _new(self, expr: sympy.Expr, device: torch.device, make: Callable[..., fx.Node]) -> fx.Node:
        def full(number: Part) -> fx.Node:
            return make(_aten.full.default, [], number, dtype=torch.float64, device=device)

        if expr.is_Symbol:
            return full(self._sizes[expr])
        word = operation_of(expr)
        parts = [self._part(part, device, make) for part in expr.args]
        if word in ("float", "identity"):
            return parts[0]
        if word in _UNARY:
            return make(_UNARY[word], *parts)
        if word == "pow" and isinstance(parts[1], float):
            return make(_aten.pow.Tensor_Scalar, *parts)
        tensors, numbers = _FOLDED[word]

        def joined(left: Part, right: Part) -> Part:
            if isinstance(left, fx.Node):
                return make(tensors, left, right)
            return make(tensors, full(left), right) if isinstance(right, fx.Node) else numbers(left, right)

        return functools.reduce(joined, parts)


def _is_fraction(arg: object) -> bool:
    return isinstance(arg, fx.Node) and isinstance(value_of(arg), torch.SymFloat)


def _write_operand(writer: _Writer, graph: fx.Graph, node: fx.Node) -> None:
    """Has a node compute with a tensor where it has a fraction now. A half is computed with in float32, as
    PyTorch does with a number."""
    dtype = value_of(node).dtype
    width = torch.float32 if dtype in _HALVES else dtype
    scalar = writer.write(value_of(node.args[1]).node.expr, node)
    make = functools.partial(call, graph, node.meta)
    with graph.inserting_before(node):
        if width != torch.float64:
            scalar = make(_aten._to_copy.default, scalar, dtype=width)
        left = node.args[0]
        if node.target is _aten.full.default:
            left = make(_aten.full.default, left, 1, **{**node.kwargs, "dtype": width})
        elif value_of(left).dtype in _HALVES:
            left = make(_aten._to_copy.default, left, dtype=width)
        words = {} if node.target is _aten.full.default else node.kwargs
        target = _OPERATORS.get(node.target, _aten.mul.Tensor)
        result = make(target, left, scalar, **words)
        if width != dtype:
            result = make(_aten._to_copy.default, result, dtype=dtype)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def compute_float_scalars(module: fx.GraphModule) -> None:
    """Writes the fractions that a graph's operators compute with. One of which an operation is unknown
    stays, and the operator is PyTorch's."""
    graph = module.graph
    found = [
        node
        for node in graph.nodes
        if (node.target in _OPERATORS or node.target is _aten.full.default)
        and len(node.args) == 2
        and _is_fraction(node.args[1])
        and value_of(node).dtype.is_floating_point
    ]
    if not found:
        return
    writer = _Writer(graph)
    with detect_fake_mode([*map(value_of, found)]):
        for node in found:
            try:
                _write_operand(writer, graph, node)
            except LookupError:
                continue
    module.recompile()
