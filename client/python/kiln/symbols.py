"""Symbolic sizes: sympy expressions of PyTorch's shape environment as kiln.wire.SymExpr.

A size that the wire has no operators for, as ``TruncToInt(2.5*s0)`` of a scale that is no integer,
is a symbol of its own there: a call finds its value (recipe.py) and passes it like any other. So an
*atom* is what stands for itself on the wire: a symbol, or the largest part of an expression that
the wire cannot say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def _taken_apart(expr: sympy.Expr) -> tuple[int, Sequence[sympy.Expr]] | None:
    """The wire's operator of an expression, and what it is of; None where it has none."""
    name = type(expr).__name__
    args = expr.args
    if expr.is_Add or name == "Identity":
        op = _ADD
    elif expr.is_Mul:
        op = _MUL
    elif expr.is_Pow and args[1].is_Integer and 0 < args[1] <= _MOST_POWER:
        op, args = _MUL, [args[0]] * int(args[1])
    elif name in _FOLDS or name in _BINARY:
        op = _FOLDS.get(name) or _BINARY[name]
    else:
        return None
    # A sum of fractions may be an integer, and the wire has no fractions.
    return (op, args) if all(arg.is_integer for arg in args) else None


def is_atom(expr: sympy.Expr) -> bool:
    """Whether an expression is a symbol on the wire."""
    return not expr.is_Integer and _taken_apart(expr) is None


def atoms_of(expr: sympy.Expr) -> set[sympy.Expr]:
    """All atoms in an expression."""
    if expr.is_Integer:
        return set()
    parts = _taken_apart(expr)
    return {expr} if parts is None else set().union(*map(atoms_of, parts[1]))


def bounds_of(atom: sympy.Expr, shape_env: object | None) -> tuple[int, int]:
    """The bounds that Dynamo's own guards hold: of a size from 0 on, of another integer any."""
    bounds = None
    if shape_env is not None:
        known = shape_env.var_to_range
        bounds = known.get(atom) if atom.is_Symbol else shape_env.bound_sympy(atom)
    if bounds is None:
        return 0, _LARGEST
    return _bound(bounds.lower, -_LARGEST), _bound(bounds.upper, _LARGEST)


class SymbolTable:
    """The atoms of one graph's sizes, numbered as they come."""

    def __init__(self, shape_env: object | None) -> None:
        self._shape_env = shape_env
        self._numbers: dict[sympy.Expr, int] = {}

    def add(self, atoms: Iterable[sympy.Expr]) -> None:
        for atom in atoms:
            self._numbers.setdefault(atom, len(self._numbers))

    def __contains__(self, atom: sympy.Expr) -> bool:
        return atom in self._numbers

    def expr(self, value: int | torch.SymInt | sympy.Expr) -> bytes:
        """A kiln.wire.SymExpr. Unsupported for an atom that was not added."""
        expr = expression_of(value)
        if isinstance(expr, int):
            return wire.sint(1, expr)
        code: list[tuple[int, int]] = []
        self._write(expr, code)
        return wire.each(2, (wire.uint(1, op) + wire.sint(2, number) for op, number in code))

    def messages(self) -> list[bytes]:
        """A kiln.wire.Symbol each, with the bounds that Dynamo's own guards hold."""
        return [self._message(atom) for atom in self._numbers]

    def _message(self, atom: sympy.Expr) -> bytes:
        low, high = bounds_of(atom, self._shape_env)
        known = self._hint(atom) if self._shape_env is not None else None
        hint = min(max(known, low), high) if known is not None else low
        return (
            wire.text(1, str(atom)) + wire.sint(2, hint) + wire.sint(3, low) + wire.sint(4, high)
        )

    def _hint(self, atom: sympy.Expr) -> int | None:
        hints = hints_of(self._shape_env)
        value = atom.xreplace({s: hints[s] for s in atom.free_symbols if s in hints})
        return int(value) if value.is_Integer else None

    def _write(self, expr: sympy.Expr, code: list[tuple[int, int]]) -> None:
        if expr.is_Integer:
            code.append((_CONSTANT, int(expr)))
            return
        parts = _taken_apart(expr)
        if parts is None:
            if expr not in self._numbers:
                raise Unsupported(f"size {expr}, that no input gives")
            code.append((_SYMBOL, self._numbers[expr]))
            return
        op, args = parts
        for place, arg in enumerate(args):
            self._write(arg, code)
            if place > 0:
                code.append((op, 0))


def _bound(value: sympy.Expr, otherwise: int) -> int:
    if not getattr(value, "is_Integer", False):
        return otherwise
    return min(max(int(value), -_LARGEST), _LARGEST)
