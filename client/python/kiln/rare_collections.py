"""Python's garbage collector, held back while graphs are traced.

Tracing makes millions of objects and keeps most of them; Python's default has the collector look
through the young ones every 700, and took a fifth of the time from torch.compile to the first step
of a 12-layer GPT-2.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

# New objects between two looks. At some hundred bytes an object, garbage of tens of megabytes.
_NEW_OBJECTS = 200_000


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Within, the collector looks seldom, in all threads. A program that turned it off, or has it
    look more seldom still, is left alone. For one thread at a time."""
    before = gc.get_threshold()
    if 0 < before[0] < _NEW_OBJECTS:
        gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
