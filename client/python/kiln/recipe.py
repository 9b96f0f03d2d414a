"""How a graph is run, as plain data: made once from a plan, and good in another process.

A call keeps its values in numbered places: its inputs first, then constants, then what steps give.
A recipe says which step takes what from where, and which places nobody needs afterwards, so that
tensors die as early as they do in eager mode.

What is decided here: the step after which a value dies (the last that uses it, unless it is a
result); where a call reads each symbol (an input that is the integer, else the size, stride or
offset of the first tensor that shows it alone; a size that the wire cannot say is computed of the
symbols in it where no tensor shows it); and the strides that PyTorch's result must have
where a segment was compiled for them or a view is made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import sympy
import torch
from torch import fx

from .expressions import Plain, function_of, plain_expression
from .fx_export import Exported, Segment, is_symbolic, value_of
from .joint_nodes import is_view, mutates
from .redrawn_masks import redrawn
from .steps import HostStep, Plan
from .symbols import is_atom


@dataclass(frozen=True)
class Source:
    """Where a number of a call is: a value of its own, or a number of a tensor's layout."""

    place: int
    kind: str = "value"  # "size", "stride", "offset"
    dim: int = 0

    def read(self, values: Sequence) -> int | float:
        held = values[self.place]
        if self.kind == "value":
            return held
        if self.kind == "size":
            return held.shape[self.dim]
        return held.stride(self.dim) if self.kind == "stride" else held.storage_offset()

    def places(self) -> set[int]:
        return {self.place}


@dataclass(frozen=True)
class Place:
    """A value of the call."""

    place: int

    def get(self, values: Sequence) -> object:
        return values[self.place]

    def places(self) -> set[int]:
        return {self.place}


@dataclass(frozen=True)
class Fixed:
    """The same in every call."""

    value: object

    def get(self, values: Sequence) -> object:
        return self.value

    def places(self) -> set[int]:
        return set()


@dataclass(frozen=True)
class Sized:
    """An expression (expressions.py) over what is read."""

    expression: Plain
    sources: tuple[Source, ...]

    def places(self) -> set[int]:
        return {source.place for source in self.sources}


class Bound:
    """A Sized, made a function."""

    def __init__(self, sized: Sized) -> None:
        self._sources = sized.sources
        self._function = function_of(sized.expression)

    def get(self, values: Sequence) -> int | float | bool:
        return self.read(values)

    def read(self, values: Sequence) -> int | float | bool:
        return self._function([source.read(values) for source in self._sources])


def bound(item: object) -> object:
    """What a call asks for an item's value."""
    return Bound(item) if isinstance(item, Sized) else item


Item = Place | Fixed | Sized


@dataclass
class KilnRecipe:
    """A segment: its wire graph, and where a call's inputs and results are."""

    graph: bytes
    takes: list[int]
    gives: list[int]
    symbols: list[Source | Sized]  # inputs by value, after the tensors
    has_random: bool
    drops: list[int] = field(default_factory=list)
    eager: object = None  # in a cache: the segment's write_eager, Written (plain_recipe.py)


@dataclass
class HostRecipe:
    """An operator that PyTorch runs. In ``args`` and ``kwargs`` an Item stands for a value.

    ``strides``: those that what reads it was made for. PyTorch's own word on the layout of a result
    is not always true (of FFTs, for one)."""

    target: object
    args: tuple
    kwargs: dict
    gives: int
    drops: list[int] = field(default_factory=list)
    strides: tuple[int, ...] | None = None


@dataclass
class Recipe:
    """All of a graph."""

    inputs: int
    places: int
    constants: list[tuple[int, object]]
    steps: list[KilnRecipe | HostRecipe]
    results: list[Item]
    tangents: list[int] = field(default_factory=list)  # inputs that are gradients
    masks: list[tuple[int | None, bool]] = field(default_factory=list)  # redrawn_masks.redrawn


def kiln_steps(recipe: Recipe) -> list[KilnRecipe]:
    """The segments of a recipe, in order."""
    return [step for step in recipe.steps if isinstance(step, KilnRecipe)]


class _Writer:
    """``inputs``: the nodes of a call's inputs, in order; ``laid_out``: those whose values have to
    have the strides that PyTorch said, since a segment reads them or a view is made of them."""

    def __init__(self, inputs: Sequence[fx.Node], laid_out: Iterable[fx.Node]) -> None:
        self._laid_out = set(laid_out)
        self._places: dict[fx.Node | sympy.Expr, int] = {}
        self._sources: dict[sympy.Expr, Source] = {}  # of atoms
        for node in inputs:
            self._learn(node, self._place(node))

    def constants(self, module: fx.GraphModule) -> list[tuple[int, object]]:
        """A graph's constants, each with its place."""
        found = module.graph.find_nodes(op="get_attr")
        return [(self._place(node), _attribute(module, node.target)) for node in found]

    def add_atom(self, atom: sympy.Expr) -> None:
        """The next input is the value of an atom."""
        self._sources[atom] = Source(self._place(atom))

    def count(self) -> int:
        return len(self._places)

    def _place(self, node: fx.Node | sympy.Expr) -> int:
        return self._places.setdefault(node, len(self._places))

    def _learn(self, node: fx.Node, place: int, has_offset: bool = True) -> None:
        """Remembers the atoms that stand alone in what a node gives. ``has_offset``: whether a call
        finds it at the offset in its storage that PyTorch names."""
        value = value_of(node)
        found: list[tuple[object, Source]] = []
        if isinstance(value, torch.Tensor):
            found += [(size, Source(place, "size", d)) for d, size in enumerate(value.size())]
            found += [(step, Source(place, "stride", d)) for d, step in enumerate(value.stride())]
            if has_offset:
                found.append((value.storage_offset(), Source(place, "offset")))
        elif isinstance(value, (torch.SymInt, torch.SymFloat)):
            found.append((value, Source(place)))
        for part, source in found:
            if isinstance(part, (torch.SymInt, torch.SymFloat)) and is_atom(part.node.expr):
                atom = part.node.expr
                if atom not in self._sources or source.kind == "value":
                    self._sources[atom] = source

    def _source(self, symbol: sympy.Symbol) -> Source:
        if symbol not in self._sources:
            raise LookupError(f"the number {symbol} is no value of the graph's")
        return self._sources[symbol]

    def _sized(self, expr: sympy.Expr) -> Sized:
        """An expression over what is there: atoms that stand somewhere are read, not computed."""
        found = [atom for atom in self._sources if not atom.is_Symbol and expr.has(atom)]
        names = {a: sympy.Symbol(f"size_{i}", integer=True) for i, a in enumerate(found)}
        sources = {name: self._sources[atom] for atom, name in names.items()}
        expr = expr.xreplace(names)
        for symbol in expr.free_symbols - sources.keys():
            sources[symbol] = self._source(symbol)
        symbols = sorted(expr.free_symbols, key=str)
        return Sized(plain_expression(expr, symbols), tuple(sources[s] for s in symbols))

    def _atom(self, atom: sympy.Expr) -> Source | Sized:
        """What a call passes for an atom."""
        if atom.is_Symbol or atom in self._sources:
            return self._source(atom)
        return self._sized(atom)

    def segment(self, segment: Segment, exported: Exported) -> KilnRecipe:
        takes = [self._places[node] for node in segment.inputs]
        symbols = [self._atom(atom) for atom in exported.symbols]
        gives = [self._place(node) for node in segment.outputs]
        for node, place in zip(segment.outputs, gives):
            self._learn(node, place, has_offset=False)  # it lies where Kiln laid it
        return KilnRecipe(exported.graph, takes, gives, symbols, exported.has_random)

    def host(self, step: HostStep) -> HostRecipe:
        node = step.node
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self.item)
        place = self._place(node)
        self._learn(node, place)
        strides = _fixed_strides(node) if node in self._laid_out else None
        return HostRecipe(node.target, args, dict(kwargs), place, strides=strides)

    def item(self, value: object) -> Item:
        if not isinstance(value, fx.Node):
            return Fixed(value)
        if mutates(value):
            return self.item(value.args[0])  # the tensor that was written
        if value in self._places:
            return Place(self._places[value])
        if not is_symbolic(value):
            raise LookupError(f"{value.name}: no step gives it")
        held = value_of(value)
        if isinstance(held, (int, float)):
            return Fixed(held)
        return self._sized(held.node.expr)


def _fixed_strides(node: fx.Node) -> tuple[int, ...] | None:
    """A tensor's strides, where no symbol is in them."""
    strides = value_of(node).stride()
    return tuple(strides) if all(isinstance(step, int) for step in strides) else None


def _attribute(module: fx.GraphModule, target: str) -> object:
    held: object = module
    for name in target.split("."):
        held = getattr(held, name)
    return held


def items_of(args: object) -> Iterable[Item]:
    """The items anywhere in an operator's arguments."""
    if isinstance(args, (Place, Fixed, Sized)):
        yield args
    elif isinstance(args, dict):
        yield from items_of(list(args.values()))
    elif isinstance(args, (list, tuple)):
        for arg in args:
            yield from items_of(arg)
    elif isinstance(args, slice):
        yield from items_of([args.start, args.stop, args.step])


def _used(step: KilnRecipe | HostRecipe) -> set[int]:
    if isinstance(step, KilnRecipe):
        return {*step.takes, *step.gives}.union(*(source.places() for source in step.symbols))
    return {step.gives}.union(*(item.places() for item in items_of([step.args, step.kwargs])))


def with_drops(recipe: Recipe) -> Recipe:
    """The recipe, whose values now go when nobody needs them any more."""
    needed = set().union(*(item.places() for item in recipe.results))
    for step in reversed(recipe.steps):
        used = _used(step)
        step.drops = sorted(used - needed)
        needed |= used
    return recipe


def _finish(
    writer: _Writer, steps: list[KilnRecipe | HostRecipe], results: list[Item], inputs: int
) -> Recipe:
    return with_drops(Recipe(inputs, writer.count(), [], steps, results))


def write_recipe(module: fx.GraphModule, plan: Plan, exported: Sequence[Exported]) -> Recipe:
    """The recipe of a plan. ``exported``: its segments, in order. LookupError for a symbol or
    value that nothing gives."""
    inputs = module.graph.find_nodes(op="placeholder")
    laid_out = [node for segment in plan.segments for node in segment.inputs]
    for step in plan.steps:
        if isinstance(step, HostStep) and is_view(step.node) and step.node.name not in plan.hosts:
            laid_out += step.node.all_input_nodes  # one that was set apart (result_views.py)
    writer = _Writer(inputs, laid_out)
    constants = writer.constants(module)
    pending = iter(exported)
    steps = [
        writer.segment(step, next(pending)) if isinstance(step, Segment) else writer.host(step)
        for step in plan.steps
    ]
    (output,) = module.graph.find_nodes(op="output")
    results = [writer.item(item) for item in output.args[0]]
    recipe = _finish(writer, steps, results, len(inputs))
    recipe.constants = constants
    # As AOTAutograd names them.
    recipe.tangents = [i for i, node in enumerate(inputs) if node.name.startswith("tangents")]
    recipe.masks = redrawn(module.graph, [node for s in plan.segments for node in s.nodes])
    return recipe


def write_eager(segment: Segment, atoms: Sequence[sympy.Expr]) -> Recipe:
    """What PyTorch runs in a segment's place: of its tensors, and of the values of ``atoms``
    after them, the same results. Errors: as of write_recipe."""
    writer = _Writer(segment.inputs, segment.outputs)
    for atom in atoms:
        writer.add_atom(atom)
    inputs = writer.count()
    steps = [writer.host(HostStep(node)) for node in segment.nodes]
    return _finish(writer, steps, [writer.item(node) for node in segment.outputs], inputs)
