"""Compiles that run beside the program."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

# A compile that is waited for longer is told of, and again after as long.
_QUIET_SECONDS = 5.0

_lock = threading.Lock()
_running = 0


def _count(change: int) -> None:
    global _running
    with _lock:
        _running += change


def in_background(work: Callable[[], object]) -> Future:
    """Runs `work` on a thread that does not keep the program from ending."""
    done: Future = Future()

    def run() -> None:
        _count(1)
        try:
            result = work()
        except BaseException as error:  # handed to whoever waits
            _count(-1)
            done.set_exception(error)
        else:
            _count(-1)
            done.set_result(result)

    threading.Thread(target=run, name="kiln-compile", daemon=True).start()
    return done


def finished(done: Future) -> object:
    """What `done` gives, or raises, once it has ended. KeyboardInterrupt ends the wait alone."""
    begun = time.monotonic()
    while not wait([done], timeout=_QUIET_SECONDS).done:
        seconds = time.monotonic() - begun
        graphs = "1 graph" if _running == 1 else f"{_running} graphs"
        print(f"kiln: compiling {graphs}, {seconds:.0f} s ...", file=sys.stderr)
    return done.result()
