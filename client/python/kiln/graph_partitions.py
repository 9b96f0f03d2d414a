"""Device graphs of a graph's parts: what cannot be captured runs between them.

    reasons = cut(plan, options)            # orders the plan's steps; why each is in no graph, or None
    parts = parts_of(plan, reasons, recipe, module, facts)  # plain data; None: it is one graph
    outer, inner = apart(recipe, parts)     # recipes: of calls of the parts, and of each part

A part is a run of steps that can be captured; what it needs of the call is an input of its, and the
numbers that its sizes are made of are too, since each of them asks for a graph of its own. Steps are
put in an order that leaves few parts: of what may come next those of the kind at hand come first.
"""

from __future__ import annotations

import dataclasses
import heapq
import logging
import operator
from collections.abc import Sequence

import sympy
import torch
from torch import fx

from .cpu_scalars import SCALARS_TO
from .fx_export import Segment, atoms_in, is_random, is_symbolic, value_of
from .graph_facts import is_masked_put, is_unsafe, operator_of, trace_of
from .joint_nodes import mutates, storages
from .recipe import HostRecipe, Item, KilnRecipe, Place, Recipe, Sized, Source, items_of, with_drops
from .steps import HostStep, Plan, tensors_in
from .symbols import atoms_of

_log = logging.getLogger("kiln")
_aten = torch.ops.aten
_COPIES = (
    *(_aten._to_copy.default, _aten.copy_.default, torch.ops.prims.device_put.default),
    SCALARS_TO,
)
_CONDITIONAL = ("cond", "while_loop")


def _is_listed(node: fx.Node, names: Sequence[str]) -> bool:
    name = str(operator_of(node)).replace(".", "::", 1)
    return bool({name, name.rpartition(".")[0]} & set(names))


def _reason_of_host(node: fx.Node, options: dict[str, object]) -> str | None:
    if _is_listed(node, options["custom_should_partition_ops"]):
        return f"custom partition op: {operator_of(node)}"
    values = [value_of(node), *map(value_of, node.all_input_nodes)]
    devices = {tensor.device.type for tensor in tensors_in(values)} - {"meta"}
    if devices != {"cuda"}:
        return "DeviceCopy ops" if "cuda" in devices and node.target in _COPIES else "cpu ops"
    if str(node.target) in _CONDITIONAL:
        return "Conditional ops"
    if node.meta.get("unbacked_bindings"):
        return "unbacked binding ops"
    if is_unsafe(node) or is_masked_put(node):
        return "CUDAGraph-unsafe custom ops"
    return None


def _nodes_of(step: Segment | HostStep) -> list[fx.Node]:
    return step.nodes if isinstance(step, Segment) else [step.node]


def _atoms_of(nodes: Sequence[fx.Node]) -> set[sympy.Expr]:
    """Those of what nodes give and of what they are given."""
    values = [value_of(n) for node in nodes for n in (node, *node.all_input_nodes)]
    return set().union(*map(atoms_in, values))


def _found_by(node: fx.Node) -> set[sympy.Expr]:
    """The sizes that an operator finds in data. Each time PyTorch traces it again it has another
    symbol for them; others know them by the first one."""
    value = value_of(node)
    numbers = [number for tensor in tensors_in(value) for number in tensor.size()]
    numbers += value if isinstance(value, (list, tuple)) else [value]
    known = next((n.node.shape_env for n in numbers if isinstance(n, torch.SymInt)), None)
    bound = node.meta.get("unbacked_bindings") or {}
    return set().union(*(atoms_of(known.replace(symbol)) for symbol in bound)) if known else set()


def _unsafe_sizes(steps: Sequence[Segment | HostStep], options: dict[str, object]) -> set[sympy.Expr]:
    """The sizes that listed operators find in data."""
    listed = options["cudagraph_unsafe_unbacked_ops"]
    nodes = (step.node for step in steps if isinstance(step, HostStep))
    return set().union(*(_found_by(node) for node in nodes if _is_listed(node, listed)))


def _reasons(steps: Sequence[Segment | HostStep], options: dict[str, object]) -> list[str | None]:
    reasons: list[str | None] = []
    of_node: dict[fx.Node, str | None] = {}
    unsafe = _unsafe_sizes(steps, options)
    for step in steps:
        nodes = _nodes_of(step)
        why = None
        if isinstance(step, HostStep):
            picked = step.node.target is operator.getitem
            why = of_node.get(step.node.args[0]) if picked else _reason_of_host(step.node, options)
        if why is None and (used := sorted(map(str, unsafe & _atoms_of(nodes)))):
            why = f"uses cudagraph-unsafe unbacked symint: {used[0]}"
        if why is None and options["cudagraph_skip_dynamic_graphs"] and _atoms_of(nodes):
            why = "dynamic shape ops"
        of_node.update(dict.fromkeys(nodes, why))
        reasons.append(why)
    return reasons


def _sources(node: fx.Node) -> set[fx.Node]:
    """The nodes that a node's inputs are, and are made of where they are sizes."""
    found: set[fx.Node] = set()
    pending = list(node.all_input_nodes)
    while pending:
        source = pending.pop()
        if source not in found and not isinstance(value_of(source), torch.Tensor):
            pending += source.all_input_nodes
        found.add(source)
    return found


def _waits(steps: Sequence[Segment | HostStep]) -> list[set[int]]:
    """For each step those that come before it. A step that writes stays where it is, and what draws
    random numbers draws in order."""
    made = {node: number for number, step in enumerate(steps) for node in _nodes_of(step)}
    writer = drawer = None
    waits: list[set[int]] = []
    for number, step in enumerate(steps):
        nodes = _nodes_of(step)
        before = {made[s] for node in nodes for s in _sources(node) if s in made} - {number}
        if any(map(mutates, nodes)):
            before, writer = set(range(number)), number
        elif writer is not None:
            before.add(writer)
        if isinstance(step, HostStep) and is_random(step.node):
            before |= set() if drawer is None else {drawer}
            drawer = number
        waits.append(before)
    return waits


def _order(waits: Sequence[set[int]], captured: Sequence[bool]) -> list[int]:
    """The steps' numbers: of those that may be next, those of the kind of the last one."""
    left = [len(before) for before in waits]
    after: list[list[int]] = [[] for _ in waits]
    for number, before in enumerate(waits):
        for other in before:
            after[other].append(number)
    ready: dict[bool, list[int]] = {True: [], False: []}
    for number, count in enumerate(left):
        if count == 0:
            heapq.heappush(ready[captured[number]], number)
    order: list[int] = []
    kind = True
    while ready[True] or ready[False]:
        kind = kind if ready[kind] else not kind
        number = heapq.heappop(ready[kind])
        order.append(number)
        for other in after[number]:
            left[other] -= 1
            if left[other] == 0:
                heapq.heappush(ready[captured[other]], other)
    return order


def cut(plan: Plan, options: dict[str, object]) -> list[str | None]:
    """Puts the steps of a plan in order, unless an option says to leave them; gives for each why it
    is in no graph, or None."""
    reasons = _reasons(plan.steps, options)
    if any(reasons) and options["reorder_for_reducing_graph_partitions"]:
        order = _order(_waits(plan.steps), [why is None for why in reasons])
        plan.steps = [plan.steps[number] for number in order]
        reasons = [reasons[number] for number in order]
    return reasons


def _runs(reasons: Sequence[str | None]) -> list[tuple[int, int]]:
    """Where the runs of steps begin and end that can be captured."""
    runs: list[tuple[int, int]] = []
    for number, why in enumerate(reasons):
        if why is not None:
            continue
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return runs


def _places(plan: Plan, recipe: Recipe, module: fx.GraphModule) -> dict[int, fx.Node]:
    """The node of each place."""
    inputs = module.graph.find_nodes(op="placeholder")
    nodes = dict(enumerate(inputs))
    constants = module.graph.find_nodes(op="get_attr")
    nodes.update(zip((place for place, _ in recipe.constants), constants))
    for step, written in zip(plan.steps, recipe.steps):
        if isinstance(step, Segment):
            nodes.update(zip(written.gives, step.outputs))
        else:
            nodes[written.gives] = step.node
    return nodes


def _used(step: KilnRecipe | HostRecipe) -> list[Item | Source]:
    """What a step reads of a call's values."""
    if isinstance(step, KilnRecipe):
        return [*map(Place, step.takes), *step.symbols]
    return list(items_of([step.args, step.kwargs]))


def _given(step: KilnRecipe | HostRecipe) -> list[int]:
    return step.gives if isinstance(step, KilnRecipe) else [step.gives]


def _call_of(recipe: Recipe, start: int, stop: int, sizes: Sequence[Source]) -> KilnRecipe:
    """The call of a part, as if it were a segment. ``sizes``: numbers it has to know beside."""
    steps = recipe.steps[start:stop]
    made = {place for step in steps for place in _given(step)}
    takes: dict[int, None] = {}
    symbols: list[Source | Sized] = []
    for item in (item for step in steps for item in _used(step)):
        if isinstance(item, Place):
            if item.place not in made:
                takes[item.place] = None
        elif isinstance(item, (Source, Sized)) and item not in symbols:
            symbols.append(item)
    symbols += [source for source in sizes if source not in symbols]
    later = [item for step in recipe.steps[stop:] for item in _used(step)] + recipe.results
    needed = set().union(*(item.places() for item in later)) if later else set()
    return KilnRecipe(b"", list(takes), sorted(made & needed), symbols, False)


def _sizes_of(places: Sequence[int], nodes: dict[int, fx.Node]) -> list[Source]:
    """Where the sizes and strides are that change, of the tensors at some places; each once."""
    found: dict[object, Source] = {}
    for place in places:
        value = value_of(nodes[place])
        if not isinstance(value, torch.Tensor):
            continue
        for kind, numbers in (("size", value.size()), ("stride", value.stride())):
            for dim, number in enumerate(numbers):
                if isinstance(number, torch.SymInt):
                    found.setdefault(number.node.expr, Source(place, kind, dim))
    return list(found.values())


def _facts_of(
    call: KilnRecipe, nodes: dict[int, fx.Node], writes: set[int], facts: dict[str, object]
) -> dict[str, object]:
    """Of a part, as graph_facts.py has them of a graph."""
    taken = [nodes[place] for place in call.takes]
    tensors = [
        number
        for number, node in enumerate(taken)
        if any(tensor.device.type == "cuda" for tensor in tensors_in(value_of(node)))
    ]
    kept = {*facts["static"]} | {p for p, node in nodes.items() if node.op == "get_attr"}
    numbers = [number for number, node in enumerate(taken) if is_symbolic(node)]
    ends = range(len(taken), len(taken) + len(call.symbols))
    return {
        **facts,
        "tensors": tensors,
        "integers": [*numbers, *ends],
        "static": [number for number, place in enumerate(call.takes) if place in kept],
        "mutated": [number for number, place in enumerate(call.takes) if place in writes],
        "names": [node.name for node in taken] + [f"size_{i}" for i, _ in enumerate(ends)],
        "traces": [trace_of(node) or None for node in taken] + [None for _ in ends],
        "output_traces": [trace_of(nodes[place]) or None for place in call.gives],
    }


def parts_of(
    plan: Plan,
    reasons: Sequence[str | None],
    recipe: Recipe,
    module: fx.GraphModule,
    facts: dict[str, object],
) -> list[dict[str, object]] | None:
    """The parts of a graph that are device graphs, in order, as plain data that a cache can keep: of
    each where its steps begin and end, the sizes that it has to know, and its facts. None: it is
    one. A part that would take or give what is neither a tensor nor a number, or would give a view
    of what it takes, runs without."""
    runs = _runs(reasons)
    if not any(reasons):
        return None
    nodes = _places(plan, recipe, module)
    held = {node: place for place, node in nodes.items()}
    for why, step in zip(reasons, plan.steps):
        if why is not None:
            node = _nodes_of(step)[0]
            words = operator_of(node), why, trace_of(node)
            _log.debug("cudagraph partition: %s, reason=%s %s", *words)
    parts = []
    for start, stop in runs:
        sizes = _sizes_of(_call_of(recipe, start, stop, []).takes, nodes)
        call = _call_of(recipe, start, stop, sizes)
        taken, given = ([nodes[p] for p in places] for places in (call.takes, call.gives))
        # Of a view of an input a segment makes a storage of its own, which no pool knows.
        if not all(map(_is_known, taken + given)) or storages(taken) & storages(given):
            node = _nodes_of(plan.steps[start])[0]
            _log.debug("cudagraph partition: %s, reason=%s %s", operator_of(node), _UNKNOWN, trace_of(node))
            continue
        inside = [node for step in plan.steps[start:stop] for node in _nodes_of(step)]
        writes = {held[node.args[0]] for node in inside if mutates(node)}
        parts.append(
            {
                "start": start,
                "stop": stop,
                "sizes": [dataclasses.astuple(source) for source in sizes],
                "facts": _facts_of(call, nodes, writes, facts),
            }
        )
    count = len(runs) + _splits(reasons)
    _log.debug(_CREATED, count, len(parts), count - len(parts))
    return parts


def cuts_of(
    plan: Plan, reasons: Sequence[str | None], parts: Sequence[dict[str, object]] | None
) -> list[str]:
    """Of each operator that cuts a graph its name and why, once, for people; and of each part that
    is none of `parts` its first operator."""
    found = [(step, why) for step, why in zip(plan.steps, reasons) if why is not None]
    if parts is not None:
        starts = {part["start"] for part in parts}
        left = [start for start, _ in _runs(reasons) if start not in starts]
        found += [(plan.steps[start], _UNKNOWN) for start in left]
    return list(dict.fromkeys(f"{operator_of(_nodes_of(step)[0])}: {why}" for step, why in found))


def _is_known(node: fx.Node) -> bool:
    """Whether it is known what a node gives, and that it is one value: the tree follows tensors."""
    return isinstance(value_of(node), torch.Tensor) or is_symbolic(node)


_UNKNOWN = "takes or gives what is no tensor and no number, or a view of what it takes"
_CREATED = "Created %d graph partitions: %d cudagraphable, %d non-cudagraphable"


def _splits(reasons: Sequence[str | None]) -> int:
    """How many runs of steps there are that cannot be captured."""
    return sum(
        why is not None and (number == 0 or reasons[number - 1] is None)
        for number, why in enumerate(reasons)
    )


class _Renumbered:
    """A part's own places for those of the graph."""

    def __init__(self, call: KilnRecipe) -> None:
        self._places = {place: number for number, place in enumerate(call.takes)}
        self._numbers = call.symbols
        self._first = len(call.takes)
        self.inputs = self._first + len(call.symbols)
        self.count = self.inputs

    def place(self, place: int) -> int:
        if place not in self._places:
            self._places[place] = self.count
            self.count += 1
        return self._places[place]

    def item(self, item: object) -> object:
        if isinstance(item, Place):
            return Place(self.place(item.place))
        if isinstance(item, Sized):
            return Place(self._first + self._numbers.index(item))
        return item

    def step(self, step: KilnRecipe | HostRecipe) -> KilnRecipe | HostRecipe:
        if isinstance(step, KilnRecipe):
            return dataclasses.replace(
                step,
                takes=[*map(self.place, step.takes)],
                gives=[*map(self.place, step.gives)],
                symbols=[Source(self._first + self._numbers.index(s)) for s in step.symbols],
            )
        args, kwargs = fx.node.map_aggregate((step.args, step.kwargs), self.item)
        gives = self.place(step.gives)
        return dataclasses.replace(step, args=args, kwargs=dict(kwargs), gives=gives)


def _inner(recipe: Recipe, start: int, stop: int, call: KilnRecipe) -> Recipe:
    own = _Renumbered(call)
    steps = [own.step(step) for step in recipe.steps[start:stop]]
    results = [Place(own.place(place)) for place in call.gives]
    return with_drops(Recipe(own.inputs, own.count, [], steps, results))


def apart(
    recipe: Recipe, parts: Sequence[dict[str, object]]
) -> tuple[Recipe, list[Recipe | None]]:
    """A recipe in which each part is a segment, and for each of its segments the part's recipe, or
    None where it is one of Kiln's that is in no part."""
    steps: list[KilnRecipe | HostRecipe] = []
    inner: list[Recipe | None] = []
    done = 0
    for part in [*parts, {"start": len(recipe.steps), "stop": len(recipe.steps)}]:
        between = [dataclasses.replace(step) for step in recipe.steps[done : part["start"]]]
        steps += between
        inner += [None for step in between if isinstance(step, KilnRecipe)]
        done = part["stop"]
        if done > part["start"]:
            sizes = [Source(*source) for source in part["sizes"]]
            call = _call_of(recipe, part["start"], done, sizes)
            steps.append(call)
            inner.append(_inner(recipe, part["start"], done, call))
    return with_drops(dataclasses.replace(recipe, steps=steps)), inner
