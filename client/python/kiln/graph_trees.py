"""Compiled graphs as device graphs: a tree for each GPU, and the functions that go through it.

    called = graphed(program, recipe, facts, graph)   # in place of `program`
    graph_tree_state(0)                               # what the tree of GPU 0 holds, for tests
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from . import _native
from .counters import counters
from .forked import open_in_child
from .graph_choice import PARAMETERS_ARE_INPUTS
from .graph_device import GraphDevice, what_is_missing
from .graph_facts import MODES
from .graph_partitions import apart
from .recipe import Recipe, kiln_steps
from .telling import tell
from .torch_inside import untraced

if TYPE_CHECKING:
    from .compiled_graph import CompiledGraph

_log = logging.getLogger("kiln")
_ALIGNMENT = 16
_STATES = ("none", "warm-up", "recording", "execution")
_RULES = ("value", "static", "cached", "fresh", "of output", "of storage")

Program = Callable[[list], Sequence]


class Tree:
    """A GPU's tree. It lives as long as a function of it does."""

    def __init__(self, index: int) -> None:
        self.device = GraphDevice(index)
        self.native = _native.GraphTree(self.device)


_lock = open_in_child(threading.RLock())
_trees: weakref.WeakValueDictionary[int, Tree] = weakref.WeakValueDictionary()
_told_of_absence = False


def tree_of(index: int) -> Tree:
    with _lock:
        tree = _trees.get(index)
        if tree is None:
            tree = _trees[index] = Tree(index)
        return tree


def options_of_function(options: dict[str, object]) -> dict[str, int]:
    """What the tree is told of a function (native/graph_tree.h), by the options of its model."""
    mutates = options["cudagraph_support_input_mutation"]
    given = {
        "no_mutation_of_outputs": not mutates,
        "skip_warm_up": options["skip_cudagraph_warmup"],
        "always_warm_up": options["force_cudagraphs_warmup"],
        "check_pool": options["slow_path_cudagraph_asserts"],
        "skip_is_error": options["cudagraph_or_error"],
        "static_alignment": _ALIGNMENT,
    }
    # Where parameters are inputs of graphs, each module has its own: that is no accident.
    if not options[PARAMETERS_ARE_INPUTS]:
        given["rerecord_limit"] = options["cudagraph_unexpected_rerecord_limit"]
        given["moved_static_input_is_error"] = not mutates
    return {name: int(value) for name, value in given.items()}


def reset() -> None:
    """Ends all trees, as torch._dynamo.reset() does with all that was compiled."""
    with _lock:
        for index in list(_trees):
            tree = _trees.pop(index, None)
            if tree is not None:
                tree.native.shutdown()
                tree.device.close()


class Skipped(RuntimeError):
    """What `cudagraph_or_error` makes of a graph that runs without a device graph."""


def tell_of_skip(text: str, options: dict[str, object]) -> None:
    """Counts and tells of a graph that runs without a device graph."""
    if options["cudagraph_or_error"]:
        raise Skipped(text)
    counters.add("cudagraph_skips")
    _log.warning("%s", text)


def why_off() -> str | None:
    """Why this PyTorch has no device graphs at all."""
    missing = what_is_missing()
    return missing and f"device graphs are off: this PyTorch has no torch._C.{missing}"


def can_be() -> bool:
    """Whether this PyTorch has what graphs take; else tells so, once."""
    global _told_of_absence
    why = why_off()
    if why is not None and not _told_of_absence:
        _told_of_absence = True
        tell(why)
    return why is None


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether places of a tensor share memory, expanded dims apart."""
    dims = sorted(
        (step, size) for step, size in zip(tensor.stride(), tensor.shape) if step != 0 and size > 1
    )
    reach = 1
    for step, size in dims:
        if step < reach:
            return True
        reach = step * size
    return False


class GraphFunction:
    """A program that goes through a tree: for each key of integer inputs a function of its own."""

    def __init__(
        self,
        program: Program,
        facts: dict[str, object],
        index: int,
        options: dict[str, object],
        constants: Sequence[torch.Tensor] = (),
    ) -> None:
        """``constants``: tensors on the GPU that the program has of its own."""
        self._program = program
        self._constants = list(constants)
        self._numbers: set[int] = set()  # of the tree's functions
        self._told: list[str] = []
        self._facts = facts
        self._index = index
        self._options = options
        self._adding = threading.Lock()
        self._by_key: dict[tuple[int, ...], Program] = {}
        self._sizes = 0  # that get a device graph
        self.tree: Tree | None = None

    def direct(self, inputs: list) -> Program:
        """What a call with such inputs runs."""
        key = tuple(inputs[place] for place in self._facts["integers"])
        found = self._by_key.get(key)
        if found is not None:
            return found
        with self._adding:
            if key not in self._by_key:
                self._by_key[key] = self._add(key, inputs)
            return self._by_key[key]

    def _add(self, key: tuple[int, ...], inputs: list) -> Program:
        facts = self._facts
        if not self._is_captured(key):
            if _UNLISTED not in self._told:
                self._told.append(_UNLISTED)
            return self._plain()
        tensors = [inputs[place] for place in facts["tensors"]]
        if any(map(_overlaps, tensors)):
            self._told.append(_OVERLAPPING)
            tell_of_skip(_OVERLAPPING, self._options)
            return self._plain()
        self._warn_of_sizes()
        if self.tree is None:
            self.tree = tree_of(self._index)
        static = [place for place in facts["static"] if place in facts["tensors"]]
        function = self.tree.native.add(
            facts["mode"],
            self._program,
            facts["tensors"],
            static,
            facts["mutated"],
            self._constants,
            facts["names"],
            facts["traces"],
            facts["output_traces"],
            facts["mutation_trace"],
            options_of_function(self._options),
        )
        self._numbers.add(function.__self__.number)
        return function

    def _plain(self) -> Program:
        """The program without a graph. The forwards wait for it all the same."""
        is_backward = MODES[self._facts["mode"]] == "backward"
        return ungraphed(self._program, self._index) if is_backward else self._program

    def told(self) -> list[str]:
        """Why calls of it ran without a device graph, were recorded anew, and what it warned of."""
        notes = () if self.tree is None else list(self.tree.device.notes)
        return self._told + [text for _, number, text in notes if number in self._numbers]

    def _is_captured(self, key: tuple[int, ...]) -> bool:
        sizes = self._options["cudagraph_capture_sizes"]
        if not key or not sizes:
            return True
        return any(key == (size if isinstance(size, tuple) else (size,)) for size in sizes)

    def _warn_of_sizes(self) -> None:
        limit = self._options["cudagraph_dynamic_shape_warn_limit"]
        self._sizes += 1
        if limit and self._sizes == limit + 1:
            self._told.append(_TOO_MANY_SIZES % self._sizes)
            _log.warning(_TOO_MANY_SIZES, self._sizes)


_OVERLAPPING = "skipping cudagraphs due to ['complex memory overlap']"
_UNLISTED = "no device graph of sizes that cudagraph_capture_sizes does not list"
_TOO_MANY_SIZES = (
    "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. "
    "Recording too many CUDAGraphs may lead to extra overhead. We have observed %d distinct sizes. "
    "Please consider the following options for better performance: a) padding inputs to a few "
    "fixed number of shapes; or b) set kiln.config.cudagraph_skip_dynamic_graphs=True. Set "
    "kiln.config.cudagraph_dynamic_shape_warn_limit=0 to silence this warning."
)


def _function_of(
    program: Program, recipe: Recipe, facts: dict[str, object], graph: CompiledGraph
) -> GraphFunction:
    """`program`, of `recipe`, through the tree of its GPU, which lives as long as `graph` does."""
    program = functools.partial(program)
    program.seeds = sum(step.has_random for step in kiln_steps(recipe))  # that a call draws
    program.said = f"partition_{len(graph.graph_functions)}", MODES[facts["mode"]].upper()
    counters.add("cudagraph_partitions")
    constants = [value for _, value in recipe.constants if isinstance(value, torch.Tensor) and value.is_cuda]
    index = graph.device.index or 0
    function = GraphFunction(program, facts, index, graph.choice.options, constants)
    graph.graph_functions.append(function)
    return function


def graphed(
    program: Program, recipe: Recipe, facts: dict[str, object], graph: CompiledGraph
) -> Program:
    """All of a compiled graph as one function of the tree."""
    function = _function_of(program, recipe, facts, graph)
    owner = weakref.ref(graph)

    @untraced
    def called(inputs: list) -> Sequence:
        run = function.direct(inputs)
        kept = owner()
        # Integers and masks of a call are looked at first, and a trace is of each call.
        if kept is not None and not (facts["integers"] or recipe.masks or kept.trace):
            kept._run = run
        return run(inputs)

    return called


def _part(program: Program, recipe: Recipe, facts: dict[str, object], graph: CompiledGraph) -> Program:
    function = _function_of(program, recipe, facts, graph)

    @untraced
    def called(inputs: list) -> Sequence:
        return function.direct(inputs)(inputs)

    return called


def graphed_in_parts(
    parts: Sequence[dict[str, object]],
    graph: CompiledGraph,
    segments: Sequence[tuple],
    make: Callable[[Recipe, Sequence[object], Sequence[object]], Program],
) -> Program:
    """A compiled graph of which parts are functions of the tree, as graph_choice.py has it."""
    outer, inner = apart(graph.recipe, parts)
    rest, told = iter(segments), iter(parts)
    runs, stands = [], []
    for recipe in inner:
        if recipe is None:
            run, stand = next(rest)
        else:
            own = list(itertools.islice(rest, len(kiln_steps(recipe))))
            program = make(recipe, [run for run, _ in own], [stand for _, stand in own])
            run, stand = _part(program, recipe, next(told)["facts"], graph), None
        runs.append(run)
        stands.append(stand)
    return make(outer, runs, stands)


def ungraphed(program: Program, index: int) -> Program:
    """`program`, a backward that is in no graph: the forwards that waited for it do no more.
    ``index``: of its GPU."""

    @untraced
    def called(inputs: list) -> Sequence:
        results = program(inputs)
        tree = _trees.get(index)
        if tree is not None:
            tree.native.backward_ran()
        return results

    return called


def graph_tree_state(device: int = 0) -> dict[str, object] | None:
    """What the tree of a GPU holds; None: there is none.

    ``state``, ``current`` (the id of the last node, of warm-ups negative), counts by name, and
    ``nodes``: of each recording ``id``, ``function``, ``depth``, ``children`` (ids), what must be
    dead before and after it, what was alive after it, as (depth, output), and how each output is
    given. ``live_blocks``: addresses in the pool. ``notes``: what the tree told of last, as (kind,
    function, text); of functions that go without a graph, warnings, and why something was recorded
    anew."""
    tree = _trees.get(device)
    if tree is None:
        return None
    report = tree.native.report()
    nodes = tree.native.nodes()
    path: list[dict] = []
    for node in nodes:
        node["children"] = []
        node["rules"] = [_RULES[rule] for rule in node["rules"]]
        del path[node["depth"] :]
        if path:
            path[-1]["children"].append(node["id"])
        path.append(node)
    report["state"] = _STATES[report["state"]]
    report["current"] = None if report["current"] is None else int(report["current"])
    notes = list(tree.device.notes)
    return {**report, "nodes": nodes, "live_blocks": tree.device.blocks(), "notes": notes}
