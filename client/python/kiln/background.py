"""Compiles that run beside the program."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from . import _native
from .forked import open_in_child
from .telling import user_line, working_for

Item = TypeVar("Item")
Result = TypeVar("Result")

# A compile that is waited for longer is told of, and again after as long.
_QUIET_SECONDS = 5.0
# Of one graph's segments: the daemon bounds the calls that wait, and a graph may have hundreds.
_MOST_THREADS = 8

_lock = open_in_child(threading.Lock())
_running: set[Future] = set()
os.register_at_fork(after_in_child=_running.clear)  # they are the parent's


def _forget(done: Future) -> None:
    with _lock:
        _running.discard(done)


def _on_a_thread(work: Callable[[], object], ended: Callable[[Future], None]) -> Future:
    """What `work` gives, run on a thread that does not keep the program from ending. `ended` is
    called before anybody who waits goes on."""
    done: Future = Future()
    line = user_line()

    def run() -> None:
        try:
            with working_for(line):
                result = work()
        except BaseException as error:  # handed to whoever waits
            ended(done)
            done.set_exception(error)
        else:
            ended(done)
            done.set_result(result)

    threading.Thread(target=run, name="kiln-compile", daemon=True).start()
    return done


def in_background(work: Callable[[], object]) -> Future:
    """Runs a graph's compile beside the program."""
    with _lock:
        done = _on_a_thread(work, _forget)
        _running.add(done)
    return done


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What `work` gives for each item, in order, on a few threads. Raises what one that failed
    raised."""
    lanes = min(len(items), _MOST_THREADS)
    if lanes < 2:
        return [work(item) for item in items]
    given = [
        _on_a_thread(lambda mine=items[lane::lanes]: [work(item) for item in mine], lambda _: None)
        for lane in range(lanes)
    ]
    wait(given)
    results: list = [None] * len(items)
    for lane, done in enumerate(given):
        results[lane::lanes] = done.result()
    return results


def begin(work: Callable[[], object]) -> None:
    """Starts what a compile is going to wait for; whoever needs it finds out how it ended."""
    _on_a_thread(work, lambda _: None)


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


def anew(error: BaseException) -> BaseException:
    """An error that is kept, to be raised: as an object of its own. What is raised learns the frames
    that it passes, and with them all that their callers hold; the kept one lives as long as a graph."""
    other = type(error).__new__(type(error), *error.args)
    other.__dict__.update(error.__dict__)
    other.__cause__, other.__suppress_context__ = error.__cause__, error.__suppress_context__
    return other


def finished(done: Future) -> object:
    """What `done` gives, or raises anew, once it has ended. KeyboardInterrupt ends the wait alone."""
    begun = time.monotonic()
    while not wait([done], timeout=_QUIET_SECONDS).done:
        print(_line(time.monotonic() - begun), file=sys.stderr)
    error = done.exception()
    if error is not None:
        raise anew(error)
    return done.result()
