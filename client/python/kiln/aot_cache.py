"""AOTAutograd's own cache, made to keep what this backend compiles.

    with serving(options):
        aot_module_simplified(..., fw_compiler=compiler_of(compile_forward), ...)

An entry holds a graph's recipe and no artifact: those are the service's to keep.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._inductor import codecache

from . import service
from .compiled_graph import CompiledGraph, wire_options
from .forked import open_in_child
from .torch_inside import (
    CACHE_SWITCHES,
    donates_buffers,
    graph_compile,
    keeps_any_backend,
    registers_code_generators,
)


def compiler_of(compile_: Callable[..., CompiledGraph]) -> Callable[..., CompiledGraph]:
    """`compile_` in the form whose results the cache keeps, where there is such a cache."""
    kept = keeps_any_backend()
    return SerializableAOTDispatchCompiler(CompiledGraph, compile_) if kept else compile_


def _tag(options: dict[str, object]) -> str:
    """What an entry is good for: this backend, build and options, none of which its key knows."""
    words = [service.build_number(), wire_options(options).hex(), str(options["fallback_random"])]
    return "kiln-" + hashlib.sha256(" ".join(words).encode()).hexdigest()[:32]


# For those that call the backend themselves: what is patched is put back in order.
_turn = open_in_child(threading.RLock())


def _nothing() -> None:
    pass


def _none(*_: object) -> list[int]:
    return []


@contextlib.contextmanager
def serving(options: dict[str, object]) -> Iterator[None]:
    """Under which AOTAutograd keeps what is compiled with `options`, and finds it again.

    Its key asks for the passes that users gave Inductor's code generators, and imports all of these
    for it: more time than the rest of a warm start, for code that Kiln does not use. Compiles of one
    process take turns (Dynamo's lock), so nobody else's key is made meanwhile.

    No buffer is told to be donated, which is for compilers that write to saved tensors: a backward
    may be run twice (``retain_graph=True``)."""
    tag = torch.compiler.config.cache_key_tag + _tag(options)
    with _turn, contextlib.ExitStack() as stack:
        if donates_buffers():
            patch = mock.patch.object(graph_compile, "collect_bw_donated_buffer_idxs", _none)
            stack.enter_context(patch)
        stack.enter_context(torch.compiler.config.patch(cache_key_tag=tag))
        if keeps_any_backend():
            switches = dict.fromkeys(CACHE_SWITCHES, True)
            stack.enter_context(torch._functorch.config.patch(switches))
        if registers_code_generators():
            stack.enter_context(mock.patch.object(codecache, "init_backend_registration", _nothing))
        yield
