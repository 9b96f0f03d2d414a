"""KilnError: what Kiln answered, ``args`` being its status code, its reason ("BAD_OPTION", or "")
and its message."""

from __future__ import annotations

from ._native import Error as KilnError


def _sentence(error: KilnError) -> str:
    if len(error.args) != 3:
        return RuntimeError.__str__(error)
    _, reason, message = error.args
    return f"{reason}: {message}" if reason else message


# The class is made in C, where a method of Python's is a page.
KilnError.__str__ = _sentence
