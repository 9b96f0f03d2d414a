"""A planned graph as something to call: Kiln's callables and PyTorch's operators, in order.

A program keeps the values of a call in numbered places and drops each after its last use, so that
saved tensors die as early as they do in eager mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy
import torch
from torch import fx

from . import _native
from .fx_export import Exported, Segment, is_symbolic, value_of
from .steps import HostStep, Plan

_SEED_LIKE = {"dtype": torch.int64}


def draw_seed() -> int:
    """A seed of PyTorch's own generator: ``torch.manual_seed`` makes runs repeat."""
    return int(torch.empty((), **_SEED_LIKE).random_())


@dataclass
class _Bound:
    """A step with its places: ``run`` takes the list of all values."""

    run: Callable[[list], None]
    drops: list[int]


class _SymbolReader:
    """Finds the values of symbols in a call's inputs."""

    def __init__(self, inputs: Sequence[fx.Node], places: dict[fx.Node, int]) -> None:
        self._sources: dict[sympy.Symbol, tuple[int, str, int]] = {}
        for node in inputs:
            value = value_of(node)
            place = places[node]
            if isinstance(value, torch.Tensor):
                for dim, size in enumerate(value.size()):
                    self._add(size, (place, "size", dim))
                for dim, stride in enumerate(value.stride()):
                    self._add(stride, (place, "stride", dim))
                self._add(value.storage_offset(), (place, "offset", 0))
            elif isinstance(value, torch.SymInt):
                self._add(value, (place, "value", 0))

    def _add(self, part: int | torch.SymInt, source: tuple[int, str, int]) -> None:
        if isinstance(part, torch.SymInt) and part.node.expr.is_Symbol:
            # By value is cheapest to read; a size comes next.
            if part.node.expr not in self._sources or source[1] == "value":
                self._sources[part.node.expr] = source

    def add(self, value: object, place: int) -> None:
        """A symbol that a step makes: a size that depends on data."""
        if isinstance(value, torch.SymInt):
            self._add(value, (place, "value", 0))
        elif isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.size()):
                self._add(size, (place, "size", dim))

    def places(self, symbols: Sequence[sympy.Symbol]) -> set[int]:
        return {self._source(symbol)[0] for symbol in symbols}

    def _source(self, symbol: sympy.Symbol) -> tuple[int, str, int]:
        if symbol not in self._sources:
            raise LookupError(f"symbol {symbol}: no input is it")
        return self._sources[symbol]

    def read(self, symbol: sympy.Symbol, values: list) -> int:
        place, kind, dim = self._source(symbol)
        held = values[place]
        if kind == "size":
            return held.shape[dim]
        if kind == "stride":
            return held.stride(dim)
        return held.storage_offset() if kind == "offset" else held

    def evaluate(self, expr: sympy.Expr, values: list) -> int | bool:
        known = {symbol: sympy.Integer(self.read(symbol, values)) for symbol in expr.free_symbols}
        result = expr.xreplace(known)
        return bool(result) if result.is_Boolean else int(result)


class Program:
    """Calls the steps of a plan. Thread-safe: a call's values are its own."""

    def __init__(
        self,
        module: fx.GraphModule,
        plan: Plan,
        compiled: Sequence[tuple[Exported, object]],
    ) -> None:
        self._graph = module.graph
        self._module = module
        self._places: dict[fx.Node, int] = {}
        self._inputs = [node for node in self._graph.nodes if node.op == "placeholder"]
        for node in self._inputs:
            self._place(node)
        self._constants: list[tuple[int, object]] = []
        for node in self._graph.nodes:
            if node.op == "get_attr":
                held = _attribute(module, node.target)
                self._constants.append((self._place(node), held))
        self._symbols = _SymbolReader(self._inputs, self._places)
        pending = iter(compiled)
        bound = []
        for step in plan.steps:
            if isinstance(step, Segment):
                bound.append(self._bind_segment(step, *next(pending)))
            else:
                bound.append(self._bind_host(step))
        (output,) = (node for node in self._graph.nodes if node.op == "output")
        self._results = [self._result(item) for item in output.args[0]]
        self._steps = self._with_drops(bound)
        self._count = len(self._places)

    def __call__(self, args: list) -> list:
        values = [None] * self._count
        values[: len(args)] = args
        args.clear()
        for place, held in self._constants:
            values[place] = held
        for step in self._steps:
            step.run(values)
            for place in step.drops:
                values[place] = None
        return [get(values) for get, _ in self._results]

    def _place(self, node: fx.Node) -> int:
        return self._places.setdefault(node, len(self._places))

    def _bind_segment(
        self, segment: Segment, exported: Exported, callable_: object
    ) -> tuple[Callable[[list], None], set[int]]:
        takes = [self._places[node] for node in segment.inputs]
        gives = [self._place(node) for node in segment.outputs]
        for node, place in zip(segment.outputs, gives):
            self._symbols.add(value_of(node), place)
        symbols, reader, has_random = exported.symbols, self._symbols, exported.has_random
        run_native = _native.run

        def run(values: list) -> None:
            inputs = [values[place] for place in takes]
            for symbol in symbols:
                inputs.append(reader.read(symbol, values))
            results = run_native(callable_, inputs, draw_seed() if has_random else 0)
            for place, result in zip(gives, results):
                values[place] = result

        return run, {*takes, *gives, *reader.places(symbols)}

    def _bind_host(self, step: HostStep) -> tuple[Callable[[list], None], set[int]]:
        node = step.node
        place = self._place(node)
        self._symbols.add(value_of(node), place)
        used = {place}
        getters: dict[fx.Node, Callable[[list], object]] = {}
        for source in node.all_input_nodes:
            getters[source], places = self._result(source)
            used |= places

        def run(values: list) -> None:
            args, kwargs = fx.node.map_arg(
                (node.args, node.kwargs), lambda source: getters[source](values)
            )
            values[place] = node.target(*args, **kwargs)

        return run, used

    def _result(self, item: object) -> tuple[Callable[[list], object], set[int]]:
        """How to get an argument or result out of a call's values, and the places it is in."""
        if not isinstance(item, fx.Node):
            return lambda values: item, set()
        if item in self._places:
            place = self._places[item]
            return lambda values: values[place], {place}
        if not is_symbolic(item):
            raise LookupError(f"{item.name}: no step gives it")
        value = value_of(item)
        if isinstance(value, (int, float)):
            return lambda values: value, set()
        expr, reader = value.node.expr, self._symbols
        symbols = sorted(expr.free_symbols, key=str)
        return lambda values: reader.evaluate(expr, values), reader.places(symbols)

    def _with_drops(self, bound: list[tuple[Callable[[list], None], set[int]]]) -> list[_Bound]:
        """Each step with the places that nobody needs after it."""
        kept = set().union(*(places for _, places in self._results)) if self._results else set()
        steps: list[_Bound] = []
        for run, used in reversed(bound):
            steps.append(_Bound(run, sorted(used - kept)))
            kept |= used
        steps.reverse()
        return steps


def _attribute(module: fx.GraphModule, target: str) -> object:
    held: object = module
    for name in target.split("."):
        held = getattr(held, name)
    return held


