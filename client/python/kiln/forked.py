"""Locks in a child that was forked.

    _lock = open_in_child(threading.Lock())

A child has its parent's locks as they were at the fork, and of its threads none: what another
thread held would stay closed for ever. Locks of modules are opened by this; those of a graph or
segment are made anew when the child falls back to PyTorch (compiled_graph.py).
"""

from __future__ import annotations

import os
from typing import TypeVar

Lock = TypeVar("Lock")


def open_in_child(lock: Lock) -> Lock:
    """`lock`, a ``threading.Lock`` or ``RLock``, which nobody holds in a child."""
    os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock
