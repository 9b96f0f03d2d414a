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
from .torch_inside import guard_failures

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


def _latest(failures: list[str]) -> tuple[str, ...]:
    """The guards that failed in the last recompile of a frame: one a version, each told of as
    "compile id: guard", with the user's stack after it."""
    found: dict[str, str] = {}
    for failure in reversed(failures):
        version, _, guard = failure.partition(": ")
        if version in found:
            break
        found[version] = guard.partition("\n")[0]
    return tuple(guard for _, guard in sorted(found.items(), key=_number_of, reverse=True))


def _number_of(item: tuple[str, str]) -> int:
    return int(item[0].rpartition("/")[2].partition("_")[0])


def note_dynamo() -> None:
    """Called in each compile of a frame: counts it, and keeps why, if it is not the first."""
    compile_id = CompileContext.current_compile_id()
    if compile_id is None or not compile_id.frame_compile_id:
        return
    counters.add("recompiles")
    frame, guards = f"frame {compile_id.frame_id}", ()
    for code, failures in guard_failures().items():
        if failures and failures[-1].startswith(f"{compile_id.frame_id}/"):
            frame = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
            guards = _latest(failures)
    again = Recompile(frame, guards)
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
