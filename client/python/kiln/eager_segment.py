"""A segment in PyTorch's hands: for calls that no artifact serves when no other can be had.

A segment's artifacts serve the inputs that their guards let through. For others one more is
compiled, in the middle of a call; when that fails (no daemon and no worker any more, say), PyTorch
runs the segment's operators on this call's inputs, after one warning a graph that says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from . import _native
from .config import switched_on
from .counters import counters
from .program import Program
from .recipe import Recipe
from .redrawn_masks import MaskLost, lost_mask
from .telling import tell
from .words import words_of

# What a call may end with before anything was launched: reasons, and codes without one
# (proto/base/status.h). Errors of a device are none.
_REASONS = {
    "MALFORMED_GRAPH", "BAD_TARGET", "BAD_OPTION", "UNSUPPORTED_OP", "TOO_LARGE",
    "TOOLCHAIN_REJECTED", "NO_TOOLCHAIN", "WORKER_DIED", "JOB_POISONED", "QUEUE_FULL", "DRAINING",
    "ARTIFACT_INCOMPATIBLE", "ARTIFACT_CORRUPT", "ARTIFACT_UNTRUSTED", "GUARD_FAILED", "STORAGE",
    "PERMISSION",
}  # fmt: skip
_DEADLINE_EXCEEDED, _RESOURCE_EXHAUSTED, _FAILED_PRECONDITION = 4, 8, 9
_ABORTED, _OUT_OF_RANGE = 10, 11
_UNIMPLEMENTED, _UNAVAILABLE = 12, 14
_CODES = {_DEADLINE_EXCEEDED, _ABORTED, _UNIMPLEMENTED, _UNAVAILABLE}
# What guards ask of an address.
_ALIGNMENT = 64
# Classes of inputs that are remembered: sizes that change with every batch are no end of them.
_MOST_UNSERVED = 1000


def strict() -> bool:
    """Whether a graph that Kiln refuses is an error (``KILN_STRICT=1``)."""
    return switched_on("KILN_STRICT")


def _was_refused(error: _native.Error, inputs: list) -> bool:
    """Whether a run has ended before it began."""
    code, reason, _ = error.args
    refused = reason in _REASONS or (not reason and code in _CODES)
    return refused and all(value is not None for value in inputs)


# What is PyTorch's own error: an index out of bounds that a kernel met, memory that is not there,
# and an assertion that does not hold.
_AS_IN_PYTORCH = {
    _OUT_OF_RANGE: IndexError,
    _RESOURCE_EXHAUSTED: torch.OutOfMemoryError,
    _FAILED_PRECONDITION: RuntimeError,
}


def _as_in_pytorch(error: _native.Error) -> Exception | None:
    """What eager mode raises in the error's place."""
    code, reason, message = error.args
    kind = None if reason else _AS_IN_PYTORCH.get(code)
    return kind and kind(message)


def _class_of(inputs: list) -> tuple:
    """Equal for inputs of which all guards say the same."""
    return tuple(
        (value.shape, value.stride(), value.data_ptr() % _ALIGNMENT)
        if isinstance(value, torch.Tensor)
        else value
        for value in inputs
    )


class EagerSegment:
    """Thread-safe. ``recipe_of``: gives what PyTorch runs (recipe.py's write_eager)."""

    def __init__(self, graph: str, recipe_of: Callable[[], Recipe]) -> None:
        self._graph = graph
        self._recipe_of = recipe_of
        self._making = threading.Lock()
        self._program: Program | None = None
        # The classes of inputs for which an artifact was asked in vain: they ask no more.
        self.unserved: set[tuple] = set()

    def knows(self, inputs: list) -> bool:
        """Whether no artifact serves such inputs, as far as is known."""
        return _class_of(inputs) in self.unserved

    def run(self, inputs: list) -> list:
        """The segment's results, computed by PyTorch. A KilnError where it would have to draw a
        mask of dropout that Kiln drew."""
        with self._making:
            if self._program is None:
                self._program = Program(self._recipe_of(), [])
        try:
            return self._program(list(inputs))
        except MaskLost:
            raise lost_mask(self._graph) from None

    def rescue(self, error: _native.Error, inputs: list) -> list:
        """The results of a run that ended with `error`, which is raised again when it may not be
        run otherwise: under ``KILN_STRICT=1``, or when it had begun. An index out of bounds is an
        ``IndexError``, memory that is not there a ``torch.OutOfMemoryError``, an assertion that
        does not hold a ``RuntimeError``."""
        meant = _as_in_pytorch(error)
        if meant is not None:
            raise meant from None
        if strict() or not _was_refused(error, inputs):
            raise error
        if not self.unserved:
            counters.add("eager_graphs")
            why = words_of(error)
            tell(f"graph {self._graph}: a part runs in eager mode for some inputs: {why}")
        if len(self.unserved) >= _MOST_UNSERVED:
            self.unserved.clear()
        self.unserved.add(_class_of(inputs))
        return self.run(inputs)
