"""Looking at what was compiled: ``kiln.explain`` and ``kiln.get_code``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from . import _native
from .compiled_graph import REFUSALS, CompiledGraph, recording
from .recompiles import Recompile, of_graph, traced_again
from .telling import tell
from .words import words_of

if TYPE_CHECKING:
    from .graph_choice import Choice
    from .graph_trees import GraphFunction

_PLAN, _SOURCES, _LIBRARY_CALLS, _CONTRACTIONS = 1, 2, 9, 10


@dataclass
class GraphReport:
    """One graph: how many segments Kiln compiled, what PyTorch runs and why, or why all of it. Where
    device graphs are asked for: how many it is, what cuts it, or why it is none; and ``told``, why
    calls of it ran without, were recorded anew, and what they warned of.

    ``contractions``: of each product, convolution and attention, what it is, who computes it, a
    library or loops of Kiln's own, and why; an attention that was taken apart has a line that says
    why, before the products that it became. ``library_calls``: of each that a library computes, what
    it is, with what behind it, the library and, where that tells, its algorithm, as it was bound."""

    name: str
    segments: int
    host_kernels: dict[str, str]
    refusal: str | None = None
    device_graphs: int = 0
    cuts: list[str] = field(default_factory=list)
    skip: str | None = None
    told: list[str] = field(default_factory=list)
    contractions: list[str] = field(default_factory=list)
    library_calls: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        if self.refusal is not None:
            return [f"{self.name}: runs in eager mode: {self.refusal}"]
        graphs = f", {self.device_graphs} device graphs" if self.device_graphs else ""
        first = f"{self.name}: {self.segments} compiled, {len(self.host_kernels)} host kernels"
        lines = [first + graphs]
        lines += [f"  {node}: {why}" for node, why in self.host_kernels.items()]
        lines += [f"  cut by {cut}" for cut in self.cuts]
        lines += [f"  {text}" for text in (self.skip, *self.told) if text is not None]
        for call, count in Counter([*self.contractions, *self.library_calls]).items():
            lines.append(f"  {count} x {call}" if count > 1 else f"  {call}")
        return lines


@dataclass
class Explanation:
    """What became of a call's graphs, and what was compiled more than once in it. ``print`` it."""

    graphs: list[GraphReport] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)

    @property
    def host_kernels(self) -> dict[str, str]:
        """{graph.node: why} of all operators that PyTorch runs."""
        return {
            f"{graph.name}.{node}": why
            for graph in self.graphs
            for node, why in graph.host_kernels.items()
        }

    def __str__(self) -> str:
        lines = []
        for graph in self.graphs:
            lines += graph.lines()
        lines += map(str, self.recompiles)
        return "\n".join(lines) or "no graph was compiled"


def _compiled(
    fn: Callable, args: tuple, kwargs: dict, forgiving: bool = False
) -> list[CompiledGraph]:
    """The graphs of one call of `fn`, each compiled or refused. ``forgiving``: also under
    ``KILN_STRICT=1``, which has a refused one raise otherwise."""
    torch._dynamo.reset()
    with recording(forgiving) as graphs:
        # What torch.compile gave knows its own dynamic= and options.
        if hasattr(fn, "_torchdynamo_orig_callable"):
            fn(*args, **kwargs)
        if not graphs:
            torch.compile(fn, backend="kiln")(*args, **kwargs)
    for graph in graphs:
        try:
            graph.wait()
        except REFUSALS as error:
            graph.refusal = words_of(error)
    torch._dynamo.reset()
    return graphs


def _check_callable(caller: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(f"kiln.{caller}: found {fn!r}, expected a function or module, then its arguments")


def _lines(graph: CompiledGraph, what: int) -> list[str]:
    if graph.refusal is not None:
        return []
    return [
        line
        for callable_ in graph.callables
        for line in _native.text(callable_, what).splitlines()
    ]


def _tell_of_graphs(
    report: GraphReport, choice: Choice, functions: Sequence[GraphFunction]
) -> None:
    report.device_graphs, report.cuts = len(functions), choice.cuts
    report.skip = choice.skip or choice.follows
    if choice.device_graphs and not functions:
        from . import graph_trees  # of PyTorch it imports what nothing else here needs

        report.skip = graph_trees.why_off()
    report.told = [text for one in functions for text in one.told()]


def explain(fn: Callable, *args: object, **kwargs: object) -> Explanation:
    """Calls `fn` under the backend, anew, and tells what became of its graphs. Forgets what
    Dynamo had compiled. A refused graph is told of under ``KILN_STRICT=1`` too."""
    _check_callable("explain", fn)
    out, before = Explanation(), traced_again()
    graphs = _compiled(fn, args, kwargs, forgiving=True)
    out.recompiles = [one for one in traced_again() if not any(one is old for old in before)]
    for graph in graphs:
        report = GraphReport(graph.name, graph.segments, graph.hosts, graph.refusal)
        report.contractions = _lines(graph, _CONTRACTIONS)
        report.library_calls = _lines(graph, _LIBRARY_CALLS)
        choice = getattr(graph, "choice", None)  # what stands for a refused graph has none
        if choice is not None and graph.refusal is None:
            _tell_of_graphs(report, choice, graph.graph_functions)
        out.graphs.append(report)
        out.recompiles += of_graph(graph)
    return out


def get_code(fn: Callable, *args: object, **kwargs: object) -> list[str]:
    """Calls `fn` under the backend, anew, and gives the plan and the kernels' sources of each
    segment that was compiled. A backward is among them where the call asked for one. What
    ``torch.compile`` gave is called as it is, so with its ``dynamic=``; of another function the
    sizes are this call's. An empty list, after a warning, where nothing was compiled."""
    _check_callable("get_code", fn)
    graphs = _compiled(fn, args, kwargs)
    found = [
        _native.text(callable_, _PLAN) + "\n" + _native.text(callable_, _SOURCES)
        for graph in graphs
        for callable_ in graph.callables
    ]
    if not graphs:
        tell("get_code: no graph was compiled: Dynamo found no operator on a tensor in the call")
    elif not found:
        tell("get_code: PyTorch runs all of what was called; kiln.explain says why")
    return found
