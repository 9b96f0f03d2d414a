"""Chrome traces of runs: the option ``trace``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from . import _native
from .torch_inside import untraced

_numbers = itertools.count()


def traced(
    program: Callable[[list], Sequence], folder: str, name: str
) -> Callable[[list], Sequence]:
    """`program`, each call of which writes what its steps did to a file in `folder`:
    NAME.PROCESS.NUMBER.json."""

    @untraced
    def run(args: list) -> Sequence:
        _native.begin_trace()
        try:
            return program(args)
        finally:
            json = _native.end_trace()
            path = Path(folder) / f"{name}.{os.getpid()}.{next(_numbers)}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json, encoding="utf-8")

    return run
