"""Chrome traces: the option ``trace``."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from . import _native
from .telling import tell_once
from .torch_inside import untraced

_KEY = 6  # a text of a callable
_SERVED_FROM = {1: "cache", 2: "compile", 3: "another's compile"}
_numbers = itertools.count()


def _events_of(row: int, callable_: object) -> list[dict[str, object]]:
    report = _native.report(callable_)
    served_from = _SERVED_FROM[report["served_from"]]
    known = {
        "key": _native.text(callable_, _KEY),
        "served_from": "own worker" if report["by_local_worker"] else served_from,
        **{name: report[name] for name in ("units_built", "units_cached")},
    }
    compiled, loaded = report["compile_us"], report["load_us"]
    place = {"cat": "compile", "ph": "X", "pid": os.getpid(), "tid": row}
    return [
        {"name": "artifact", "ts": 0, "dur": compiled, **place, "args": known},
        {"name": "load", "ts": compiled, "dur": loaded, **place},
    ]


def _write(folder: str, name: str, text: str) -> None:
    """A folder that cannot be written costs its traces, not the program."""
    path = Path(folder) / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        tell_once(f"trace: {folder!r}: no trace is written: {error.strerror}")


def traced(
    program: Callable[[list], Sequence], folder: str, name: str, callables: Sequence[object]
) -> Callable[[list], Sequence]:
    """`program`, each call of which writes what its steps did to a file in `folder`:
    NAME.PROCESS.NUMBER.json. What it took to get `callables`, a row each, is in
    NAME.PROCESS.compile.json, with the keys by which ``compilectl show KEY --trace`` tells more."""
    events = [event for row, one in enumerate(callables) for event in _events_of(row, one)]
    compiled = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
    _write(folder, f"{name}.{os.getpid()}.compile.json", compiled)

    @untraced
    def run(args: list) -> Sequence:
        _native.begin_trace()
        try:
            return program(args)
        finally:
            _write(folder, f"{name}.{os.getpid()}.{next(_numbers)}.json", _native.end_trace())

    return run
