"""Kiln as a backend of ``torch.compile``: ``torch.compile(model, backend="kiln")``.

``kiln.config`` options, ``kiln.counters`` and ``kiln.metrics`` numbers, ``kiln.explain`` and
``kiln.get_code`` what was compiled; ``kiln.save_artifacts`` and ``kiln.load_artifacts`` take it to
another machine.

Without PyTorch there are options, numbers and ``python -m kiln``; what needs it imports it then.
"""

import importlib
import sys
from typing import TYPE_CHECKING

try:
    from . import config
except (AttributeError, TypeError, ValueError) as error:  # of KILN_OPTIONS
    by_name = sys.argv[0:1] == ["-m"] and "kiln" in sys.orig_argv
    if not by_name and not "".join(sys.argv[0:1]).endswith("/compilectl"):
        raise
    sys.exit(f"kiln: {error}")  # the tools end with a line
from . import service as service  # before any fork, which it counts
from .counters import counters, metrics
from .errors import KilnError

if TYPE_CHECKING:
    from .artifacts import load_artifacts, save_artifacts
    from .graph_trees import graph_tree_state
    from .inductors_place import replace_inductor
    from .kernel_bandwidth import bandwidth
    from .launches import register_launch_hooks
    from .look import explain, get_code
    from .recompiles import recompile_reasons

__all__ = [
    "KilnError",
    "bandwidth",
    "config",
    "counters",
    "explain",
    "get_code",
    "graph_tree_state",
    "load_artifacts",
    "metrics",
    "recompile_reasons",
    "register_launch_hooks",
    "replace_inductor",
    "save_artifacts",
]

# What imports PyTorch, and where it is.
_LATE = {
    "bandwidth": "kernel_bandwidth",
    "explain": "look",
    "get_code": "look",
    "graph_tree_state": "graph_trees",
    "load_artifacts": "artifacts",
    "recompile_reasons": "recompiles",
    "register_launch_hooks": "launches",
    "replace_inductor": "inductors_place",
    "save_artifacts": "artifacts",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return service.version()
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
