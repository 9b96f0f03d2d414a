"""Names of kernels that are unique in a compiled graph of several segments.

    names = KernelNames(graph)
    names.of(1, "kiln_poi_fused_sin_0")     # of its second segment: "kiln_poi_fused_sin_3"

Each segment is an artifact of its own, in which the kernels' numbers begin at 0. For people the
numbers go on over the segments of a graph, and a kernel that two segments have in common has the
name that it has in the first. Nothing is worked out before a launch is told of.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from .compiled_graph import CompiledGraph

_KERNELS = 8  # a text of a callable


class SegmentNames:
    """What launches of one of a graph's segments are called: called with a label. ``backend``: what
    the graph's model says of who made its kernels; None: the option of the process says so."""

    def __init__(self, names: KernelNames, segment: int, backend: str | None) -> None:
        self._names, self._segment, self.backend = names, segment, backend

    def __call__(self, label: str) -> str:
        return self._names.of(self._segment, label)


class KernelNames:
    """Of one graph, which this does not keep. Thread-safe."""

    def __init__(self, graph: CompiledGraph) -> None:
        self._graph = weakref.ref(graph)
        self._learning = threading.Lock()
        self._firsts: list[int] = []  # where each segment's numbers begin
        self._names: dict[tuple[int, str], str] = {}
        self._by_symbol: dict[str, str] = {}

    def of(self, segment: int, label: str) -> str:
        """The name of the kernel that a segment's artifact calls `label`."""
        if (segment, label) not in self._names:
            with self._learning:
                self._learn()
        return self._names.get((segment, label), label)

    def _learn(self) -> None:
        """Reads what the segments' artifacts, the latest ones, are made of."""
        graph = self._graph()
        first = 0
        for segment, callable_ in enumerate(graph.callables if graph else ()):
            if segment == len(self._firsts):
                self._firsts.append(first)
            last = self._name(segment, _native.text(callable_, _KERNELS))
            first = self._firsts[segment] + last + 1

    def _name(self, segment: int, kernels: str) -> int:
        """Gives the highest number; of no kernels -1."""
        words = iter(kernels.split())
        last = -1
        for symbol, stem, text in zip(words, words, words):
            number = int(text)
            moved = f"{stem}_{self._firsts[segment] + number}"
            name = self._by_symbol.setdefault(symbol, moved)
            self._names.setdefault((segment, f"{stem}_{number}"), name)
            last = max(last, number)
        return last
