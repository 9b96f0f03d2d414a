"""Python's garbage collector, held back while Dynamo and AOTAutograd trace.

Tracing makes millions of objects and keeps most of them; Python's default has the collector look
through the young ones every 700, and took a fifth of the time from torch.compile to the end of the
first step of a 12-layer GPT-2.
"""

from __future__ import annotations

import gc
import os

from torch._dynamo.callback import callback_handler

# New objects between two looks. At some hundred bytes an object, garbage of tens of megabytes.
_NEW_OBJECTS = 200_000

_before: tuple[int, int, int] | None = None


def _begin(_: object) -> None:
    global _before
    _before = gc.get_threshold()
    if 0 < _before[0] < _NEW_OBJECTS:
        gc.set_threshold(_NEW_OBJECTS, *_before[1:])


def _end(_: object) -> None:
    global _before
    if _before is not None:
        gc.set_threshold(*_before)
        _before = None


# A compile that another thread of the parent was in has no end in a child.
os.register_at_fork(after_in_child=lambda: _end(None))


def collect_rarely() -> None:
    """Has the collector look seldom, in all threads, from the begin of a compile to its end, under
    Dynamo's lock. A program that turned it off, or has it look more seldom still, is left alone.

    May be called again: ``torch._dynamo.reset`` forgets it."""
    if _begin not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)
