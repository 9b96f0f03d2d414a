"""What kernels are named by: the option ``descriptive_names``, with Inductor's words.

``original_aten``: by the operators that the program's are made of, of which the service knows.
``torch``: by the functions and modules that the program calls; of a backward by those of its forward,
with "backward" behind. ``inductor_node``: by the nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import fx

BY_OPERATORS = "original_aten"


def _function_of(node: fx.Node) -> str:
    for key, ending in (("source_fn_stack", ""), ("fwd_source_fn_stack", "backward")):
        if stack := node.meta.get(key):
            _, function = stack[-1]
            name = function if isinstance(function, str) else getattr(function, "__name__", "")
            return name + ending if name else ""
    return ""


def _name_of(node: fx.Node) -> str:
    return node.name


_WORDS: dict[str, Callable[[fx.Node], str]] = {"torch": _function_of, "inductor_node": _name_of}


def kernel_words(nodes: list[fx.Node], names: str) -> list[str]:
    """Of each node the word for kernels that compute it, "" for none; nothing where operators name
    them. ``names``: the option."""
    if names == BY_OPERATORS:
        return []
    return [_letters(_WORDS[names](node)) for node in nodes]


def _letters(word: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in word)
