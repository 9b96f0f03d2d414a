"""KilnError: what Kiln answered, ``args`` being its status code, its reason ("BAD_OPTION", or "")
and its message. ``refusals`` are the nodes of a graph that it does not compile: tuples (node,
operator, reason, text), the node by its place among the graph's; ``refuses_more`` tells whether
there may be others."""

from __future__ import annotations

from ._native import Error as KilnError
from ._native import Refusal


def _sentence(error: KilnError) -> str:
    if len(error.args) != 3:
        return RuntimeError.__str__(error)
    _, reason, message = error.args
    return f"{reason}: {message}" if reason else message


__all__ = ["KilnError", "Refusal"]

# The class is made in C, where a method of Python's is a page.
KilnError.__str__ = _sentence
