"""Numbers of a graph's sizes as plain data, and as functions that a call runs: no sympy, no text.

An expression is a number, or ``["value", i]`` for the i-th number that it is given, or the name of an
operation and its operands: ``["floordiv", ["value", 0], 2]``.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence

import sympy
from torch.utils._sympy import functions

Plain = int | float | bool | list
Number = int | float | bool

_UNARY = (
    *("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("asin", "acos", "atan", "asinh"),
)

# How a call computes them, of Python's numbers.
_OPERATIONS: dict[str, Callable[..., Number]] = {
    "add": lambda *parts: sum(parts),
    "mul": lambda *parts: math.prod(parts),
    "pow": operator.pow,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "modular_indexing": lambda value, step, size: value // step % size,
    "truediv": operator.truediv,
    "min": min,
    "max": max,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "ceildiv": lambda a, b: -(-a // b),
    "trunc": math.trunc,
    "whole": lambda value: float(math.trunc(value)),
    "float": float,
    "round": round,
    "identity": lambda value: value,
    "where": lambda condition, yes, no: yes if condition else no,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": lambda *parts: all(parts),
    "or": lambda *parts: any(parts),
    "not": operator.not_,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    **{name: getattr(math, name) for name in _UNARY},
}

# What is the same in each version of torch under sympy's names, or torch's.
_BY_SYMPY = {
    **{sympy.Add: "add", sympy.Mul: "mul", sympy.Pow: "pow", sympy.Mod: "mod", sympy.Abs: "abs"},
    **{sympy.Min: "min", sympy.Max: "max", sympy.floor: "floor", sympy.ceiling: "ceil"},
    **{sympy.Eq: "eq", sympy.Ne: "ne", sympy.Lt: "lt", sympy.Le: "le", sympy.Gt: "gt"},
    **{sympy.Ge: "ge", sympy.And: "and", sympy.Or: "or", sympy.Not: "not"},
    **{getattr(sympy, name): name for name in _UNARY if hasattr(sympy, name)},
}
_BY_TORCH = {
    **{"FloorDiv": "floordiv", "CleanDiv": "floordiv", "CeilDiv": "ceildiv", "Mod": "mod"},
    **{"PythonMod": "mod", "ModularIndexing": "modular_indexing", "IntTrueDiv": "truediv"},
    **{"FloatTrueDiv": "truediv", "FloatPow": "pow", "PowByNatural": "pow", "Min": "min"},
    **{"Max": "max", "FloorToInt": "floor", "CeilToInt": "ceil", "TruncToInt": "trunc"},
    **{"TruncToFloat": "whole", "RoundToInt": "round", "RoundDecimal": "round"},
    **{"ToFloat": "float", "Identity": "identity", "Where": "where", "LShift": "lshift"},
    **{"RShift": "rshift", "BitwiseFn_bitwise_and": "bitwise_and"},
    **{"BitwiseFn_bitwise_or": "bitwise_or", "BitwiseFn_bitwise_xor": "bitwise_xor"},
    **{f"OpaqueUnaryFn_{name}": name for name in _UNARY},
}


@functools.cache
def _names() -> dict[object, str]:
    """{class of an expression: name of the operation}, of this torch."""
    there = {getattr(functions, name, None): word for name, word in _BY_TORCH.items()}
    return {**_BY_SYMPY, **{kind: word for kind, word in there.items() if kind is not None}}


def operation_of(expr: sympy.Basic) -> str:
    """The name of what an expression does with its operands. LookupError for none of ours."""
    name = _names().get(expr.func)
    if name is None:
        raise LookupError(f"{expr.func.__name__}: no operation on sizes")
    return name


def plain_expression(expr: sympy.Basic, values: Sequence[sympy.Symbol]) -> Plain:
    """An expression over `values`. LookupError for an operation that is none of ours."""
    if expr in (sympy.true, sympy.false):
        return bool(expr)
    if expr.is_Symbol:
        return ["value", list(values).index(expr)]
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if isinstance(expr, sympy.Rational):
        return ["truediv", int(expr.p), int(expr.q)]
    if expr.is_number and not expr.args:
        return float(expr)
    if isinstance(expr, sympy.Piecewise) and expr.args[-1].cond == sympy.true:
        return _cases(expr, values)
    return [operation_of(expr), *(plain_expression(part, values) for part in expr.args)]


def _cases(expr: sympy.Piecewise, values: Sequence[sympy.Symbol]) -> Plain:
    """The first case whose condition holds; the last one's always does."""
    *cases, last = expr.args
    plain = plain_expression(last.expr, values)
    for case in reversed(cases):
        condition, yes = (plain_expression(part, values) for part in (case.cond, case.expr))
        plain = ["where", condition, yes, plain]
    return plain


def function_of(plain: Plain) -> Callable[[Sequence[Number]], Number]:
    """What computes an expression of the values it is over. LookupError for an unknown name."""
    if not isinstance(plain, list):
        return lambda values: plain
    name, *parts = plain
    if name == "value":
        return operator.itemgetter(*parts)
    operation = _OPERATIONS[name]
    operands = [function_of(part) for part in parts]
    if len(operands) == 2:
        first, second = operands
        return lambda values: operation(first(values), second(values))
    return lambda values: operation(*[operand(values) for operand in operands])
