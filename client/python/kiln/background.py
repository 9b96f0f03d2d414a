"""Compiles that run beside the program."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

from . import _native

# A compile that is waited for longer is told of, and again after as long.
_QUIET_SECONDS = 5.0

_lock = threading.Lock()
_running: set[Future] = set()


def _after_fork() -> None:
    # Threads, and what they held, are the parent's.
    global _lock
    _lock = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_after_fork)


def _forget(done: Future) -> None:
    with _lock:
        _running.discard(done)


def in_background(work: Callable[[], object]) -> Future:
    """Runs `work` on a thread that does not keep the program from ending."""
    done: Future = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # handed to whoever waits
            _forget(done)
            done.set_exception(error)
        else:
            _forget(done)
            done.set_result(result)

    with _lock:
        _running.add(done)
    threading.Thread(target=run, name="kiln-compile", daemon=True).start()
    return done


def wait_for_all() -> None:
    """Returns when what runs now has ended, well or not."""
    with _lock:
        pending = set(_running)
    wait(pending)


def _line(seconds: float) -> str:
    """How far the compiles under way are, for people."""
    done, total = _native.progress()
    graphs = "1 graph" if len(_running) == 1 else f"{len(_running)} graphs"
    kernels = f", {done}/{total} kernels" if total else ""
    return f"kiln: compiling {graphs}{kernels}, {seconds:.0f} s ..."


def finished(done: Future) -> object:
    """What `done` gives, or raises, once it has ended. KeyboardInterrupt ends the wait alone."""
    begun = time.monotonic()
    while not wait([done], timeout=_QUIET_SECONDS).done:
        print(_line(time.monotonic() - begun), file=sys.stderr)
    return done.result()
