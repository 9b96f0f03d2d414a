"""Why something was compiled again: ``kiln.recompile_reasons``.

Two guard what was compiled: Dynamo a frame, which it traces again when a guard of its own fails
(``kiln.counters["recompiles"]`` counts those), and Kiln the artifacts of a graph, of which it
compiles one more when the guards of none hold for a call's inputs.
"""

from __future__ import annotations

import collections
import itertools
import logging
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Protocol

from torch._guards import CompileContext

from . import _native
from .counters import counters
from .forked import open_in_child
from .torch_inside import frame_in_compile

_GUARDS = 5  # a text of a callable
_KEPT = 1000  # of Dynamo's, the latest

_log = logging.getLogger("kiln")
_lock = open_in_child(threading.Lock())
_traced_again: collections.deque[Recompile] = collections.deque(maxlen=_KEPT)
_numbers = itertools.count()


class Graph(Protocol):
    """What is asked of a CompiledGraph."""

    name: str
    line: tuple[str, int]
    callables: list[object]


_graphs: weakref.WeakValueDictionary[int, Graph] = weakref.WeakValueDictionary()


def _after_fork() -> None:
    # The parent's graphs are not to be asked in a child.
    global _graphs
    _graphs = weakref.WeakValueDictionary()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class Recompile:
    """``frame``: the function that Dynamo traced again, "name (file:line)", or the user's line that
    had a graph compiled. ``guards``: what failed, the latest version's first. ``graph``: the one
    that Kiln compiled again; None when Dynamo traced the frame again."""

    frame: str
    guards: tuple[str, ...]
    graph: str | None = None

    def __str__(self) -> str:
        what = "traced again" if self.graph is None else f"{self.graph} compiled again"
        return f"{self.frame}: {what}: {'; '.join(self.guards) or 'no guard is named'}"


def _latest_first(failures: list[str]) -> tuple[str, ...]:
    """The guards that failed, one a version, each told of as "compile id: guard", with the user's
    stack after it."""
    found = [failure.partition(": ") for failure in failures]
    found.sort(key=lambda parts: _number_of(parts[0]), reverse=True)
    return tuple(guard.partition("\n")[0] for _, _, guard in found if guard)


def _number_of(version: str) -> int:
    return int(version.rpartition("/")[2].partition("_")[0])


def note_dynamo() -> None:
    """Called in each compile of a frame: counts it, and keeps why, when there was a version of the
    frame whose guard failed. A trace that begins again, since the one before did not end, is none,
    nor is that of a thread which waited for another's first trace: no guard has failed then."""
    compile_id = CompileContext.current_compile_id()
    known = frame_in_compile()
    if compile_id is None or known is None:
        return
    code, failures = known
    if not failures:
        return
    counters.add("recompiles")
    frame = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
    again = Recompile(frame, _latest_first(failures))
    with _lock:
        _traced_again.append(again)
    _log.info("%s", again)


def watch(graph: Graph) -> None:
    """Has a graph asked for what was compiled again, as long as it lives."""
    with _lock:
        _graphs[next(_numbers)] = graph


def of_graph(graph: Graph) -> list[Recompile]:
    """What Kiln compiled again of a graph."""
    name, number = graph.line
    return [
        Recompile(f"{name}:{number}", (guard,), graph.name)
        for callable_ in graph.callables
        for guard in _native.text(callable_, _GUARDS).splitlines()
    ]


def recompile_reasons() -> list[Recompile]:
    """All that was compiled again in this process: frames that Dynamo traced again, the latest
    thousand in order, then what Kiln did for the graphs that are still in use."""
    with _lock:
        found, graphs = list(_traced_again), list(_graphs.values())
    for graph in graphs:
        found += of_graph(graph)
    return found


def traced_again() -> list[Recompile]:
    """Those of Dynamo alone."""
    with _lock:
        return list(_traced_again)
