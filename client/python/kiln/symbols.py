"""Symbolic sizes: sympy expressions of PyTorch's shape environment as kiln.wire.SymExpr."""

from __future__ import annotations

from collections.abc import Iterable

import sympy
import torch

from . import wire
from .torch_inside import hints_of
from .words import Unsupported

# kiln.wire.SymOp.
_CONSTANT, _SYMBOL, _ADD, _MUL, _FLOORDIV, _MOD, _MIN, _MAX = 1, 2, 3, 4, 5, 6, 7, 8

# Functions of torch.utils._sympy.functions, by their names: two arguments each.
_BINARY = {"FloorDiv": _FLOORDIV, "CleanDiv": _FLOORDIV, "Mod": _MOD, "PythonMod": _MOD}
# These take any number of arguments; sympy has its own, and PyTorch too.
_FOLDS = {"Max": _MAX, "Min": _MIN}

_LARGEST = (1 << 62) - 1
_MOST_POWER = 16


def expression_of(value: int | torch.SymInt | sympy.Expr) -> int | sympy.Expr:
    """The expression of a size; an int when no symbol is in it."""
    if isinstance(value, int):
        return value
    expr = value.node.expr if isinstance(value, torch.SymInt) else value
    return int(expr) if expr.is_Integer else expr


def bounds_of(symbol: sympy.Symbol, shape_env: object | None) -> tuple[int, int]:
    """The bounds that Dynamo's own guards hold: of a size from 0 on, of another integer any."""
    bounds = shape_env.var_to_range.get(symbol) if shape_env is not None else None
    if bounds is None:
        return 0, _LARGEST
    return _bound(bounds.lower, -_LARGEST), _bound(bounds.upper, _LARGEST)


class SymbolTable:
    """The symbols of one graph, numbered as they come."""

    def __init__(self, shape_env: object | None) -> None:
        self._shape_env = shape_env
        self._numbers: dict[sympy.Symbol, int] = {}

    def add(self, symbols: Iterable[sympy.Symbol]) -> None:
        for symbol in symbols:
            self._numbers.setdefault(symbol, len(self._numbers))

    def __contains__(self, symbol: sympy.Symbol) -> bool:
        return symbol in self._numbers

    def expr(self, value: int | torch.SymInt | sympy.Expr) -> bytes:
        """A kiln.wire.SymExpr. Unsupported for what the wire cannot say."""
        expr = expression_of(value)
        if isinstance(expr, int):
            return wire.sint(1, expr)
        code: list[tuple[int, int]] = []
        self._write(expr, code)
        return wire.each(2, (wire.uint(1, op) + wire.sint(2, number) for op, number in code))

    def messages(self) -> list[bytes]:
        """A kiln.wire.Symbol each, with the bounds that Dynamo's own guards hold."""
        return [self._message(symbol) for symbol in self._numbers]

    def _message(self, symbol: sympy.Symbol) -> bytes:
        low, high = bounds_of(symbol, self._shape_env)
        known = self._hint(symbol) if self._shape_env is not None else None
        hint = min(max(known, low), high) if known is not None else low
        return (
            wire.text(1, str(symbol)) + wire.sint(2, hint) + wire.sint(3, low) + wire.sint(4, high)
        )

    def _hint(self, symbol: sympy.Symbol) -> int | None:
        value = hints_of(self._shape_env).get(symbol)
        return int(value) if value is not None and value.is_Integer else None

    def _write(self, expr: sympy.Expr, code: list[tuple[int, int]]) -> None:
        name = type(expr).__name__
        if expr.is_Integer:
            code.append((_CONSTANT, int(expr)))
        elif expr.is_Symbol:
            if expr not in self._numbers:
                raise Unsupported(f"symbol {expr} that no input gives")
            code.append((_SYMBOL, self._numbers[expr]))
        elif expr.is_Add or expr.is_Mul:
            self._fold(_ADD if expr.is_Add else _MUL, expr.args, code)
        elif expr.is_Pow:
            base, exponent = expr.args
            if not exponent.is_Integer or not 0 < exponent <= _MOST_POWER:
                raise Unsupported(f"size {expr}")
            self._fold(_MUL, [base] * int(exponent), code)
        elif name in _FOLDS:
            self._fold(_FOLDS[name], expr.args, code)
        elif name in _BINARY:
            self._fold(_BINARY[name], expr.args, code)
        elif name == "Identity":
            self._write(expr.args[0], code)
        else:
            raise Unsupported(f"size {expr}")

    def _fold(self, op: int, args: Iterable[sympy.Expr], code: list[tuple[int, int]]) -> None:
        for place, arg in enumerate(args):
            self._write(arg, code)
            if place > 0:
                code.append((op, 0))


def _bound(value: sympy.Expr, otherwise: int) -> int:
    if not getattr(value, "is_Integer", False):
        return otherwise
    return min(max(int(value), -_LARGEST), _LARGEST)
