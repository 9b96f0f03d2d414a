"""Kiln as a backend of ``torch.compile``: ``torch.compile(model, backend="kiln")``.

``kiln.config`` options, ``kiln.counters`` and ``kiln.metrics`` numbers, ``kiln.explain`` and
``kiln.get_code`` what was compiled; ``kiln.save_artifacts`` and ``kiln.load_artifacts`` take it to
another machine.
"""

from . import config
from ._native import Error as KilnError
from .artifacts import load_artifacts, save_artifacts
from .counters import counters, metrics
from .look import explain, get_code
from .recompiles import recompile_reasons

__all__ = [
    "KilnError",
    "config",
    "counters",
    "explain",
    "get_code",
    "load_artifacts",
    "metrics",
    "recompile_reasons",
    "save_artifacts",
]
