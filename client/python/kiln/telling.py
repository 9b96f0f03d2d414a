"""Warnings that point at the user's line."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_torch = find_spec("torch")  # not imported: python -m kiln does without

# Whose frames are not the user's: this package's, PyTorch's, and the standard library's threads.
_INSIDE = tuple(
    str(Path(file).parent) + "/" for file in (__file__, _torch.origin if _torch else __file__)
) + (threading.__file__, contextlib.__file__)

_asked = threading.local()
_told: dict[str, object] = {}  # what was told once, and by whom


def is_inside(file: str) -> bool:
    """Whether a file's code is not the user's."""
    return file.startswith(_INSIDE)


def user_line() -> tuple[str, int]:
    """File and line of the user's code that this thread works for."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*_INSIDE, "<eval_with_key>")):
            return name, frame.f_lineno
        frame = frame.f_back
    return getattr(_asked, "line", ("kiln", 0))


@contextlib.contextmanager
def working_for(line: tuple[str, int]) -> Iterator[None]:
    """In which a thread without a line of the user's works for that one."""
    _asked.line = line
    try:
        yield
    finally:
        del _asked.line


def tell(message: str) -> None:
    """Warns, at the user's line."""
    name, number = user_line()
    warnings.warn_explicit(f"kiln: {message}", UserWarning, name, number)


def tell_once(message: str) -> None:
    """As `tell`, the first time in this process that there is this to say."""
    mine = object()
    if _told.setdefault(message, mine) is mine:  # of two threads one
        tell(message)
