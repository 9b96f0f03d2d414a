"""AOTAutograd's own cache, made to keep what this backend compiles.

    with serving(options, module, example_inputs):
        aot_module_simplified(..., fw_compiler=compiler_of(compile_forward), ...)

An entry holds a graph's recipe and no artifact: those are the service's to keep.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import torch
from torch import fx
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._inductor import codecache
from torch.utils._sympy.symbol import SymT, symbol_is_type

from . import service
from .compiled_graph import CompiledGraph, wire_options
from .config import OF_GRAPHS
from .forked import open_in_child
from .graph_choice import annotation_of
from .padded_gradients import side_of_break
from .symbols import bounds_of
from .torch_inside import (
    CACHE_SWITCHES,
    donates_buffers,
    graph_compile,
    keeps_any_backend,
    parameters_are_inputs,
    registers_code_generators,
)


def compiler_of(compile_: Callable[..., CompiledGraph]) -> Callable[..., CompiledGraph]:
    """`compile_` in the form whose results the cache keeps, where there is such a cache."""
    kept = keeps_any_backend()
    return SerializableAOTDispatchCompiler(CompiledGraph, compile_) if kept else compile_


def shared_storages(example_inputs: Sequence[object]) -> list[tuple[int, ...]]:
    """The places of inputs that lie in one storage, of each storage with more than one.

    AOTAutograd makes another graph of inputs that are written and overlap, and asks in each call
    whether they do; its cache knows of neither. So an entry is for those that share storages alike,
    and where such inputs are written none is kept (CompiledGraph.unkept)."""
    places: dict[int, list[int]] = {}
    for place, value in enumerate(example_inputs):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            places.setdefault(value.untyped_storage()._cdata, []).append(place)
    return [tuple(group) for group in places.values() if len(group) > 1]


def _state_of_tracing() -> Iterator[object]:
    """What PyTorch traces by that stands in no graph: of autocast the key has one bit, of the
    others nothing."""
    for device in ("cpu", "cuda"):
        yield device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    yield torch.is_autocast_cache_enabled()
    yield torch.get_default_dtype()
    yield torch.get_default_device()
    # By which it chooses what attention is made of.
    cuda = torch.backends.cuda
    yield cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled()
    yield cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled()


def static_inputs(module: fx.GraphModule) -> list[int]:
    """The inputs of Dynamo's graph that keep their addresses."""
    inputs = module.graph.find_nodes(op="placeholder")
    marks = [node.meta.get("tensor_dict") or {} for node in inputs]
    return [place for place, mark in enumerate(marks) if mark.get("_dynamo_static_input_type")]


def _bounds(module: fx.GraphModule) -> list[tuple[int, int]]:
    """The bounds of the symbols of Dynamo's graph, in order: an entry is compiled for those that it
    was traced with, and a guard of Dynamo's may set others where the operators are the same."""
    bounds = {}
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        parts = [*value.size(), *value.stride()] if isinstance(value, torch.Tensor) else [value]
        for part in parts:
            if isinstance(part, torch.SymInt):
                for symbol in sorted(part.node.expr.free_symbols, key=str):
                    bounds[symbol] = bounds_of(symbol, part.node.shape_env)
    return [*bounds.values()]


def _tag(
    options: dict[str, object], module: fx.GraphModule, example_inputs: Sequence[object]
) -> str:
    """What an entry is good for: this backend, build and options, PyTorch's state, symbols of these
    bounds, and inputs that share storages alike and keep their addresses alike. Its key knows none
    of it."""
    words = [service.build_number(), wire_options(options).hex(), str(options["fallback_random"])]
    words += [options["trace"], options["kernel_backend"], options["descriptive_names"]]
    words += map(str, _state_of_tracing())
    words += map(str, shared_storages(example_inputs))
    words += [f"{name}={options[name]}" for name in OF_GRAPHS]
    words.append(str(annotation_of(options)))
    words.append(str(parameters_are_inputs()))
    words.append(str(static_inputs(module)))
    words.append(str(_bounds(module)))
    words.append(str(side_of_break(module, example_inputs, options)))
    return "kiln-" + hashlib.sha256(" ".join(words).encode()).hexdigest()[:32]


# For those that call the backend themselves: what is patched is put back in order.
_turn = open_in_child(threading.RLock())


def _nothing() -> None:
    pass


def _none(*_: object) -> list[int]:
    return []


def _takes_floats(module: fx.GraphModule) -> bool:
    """Whether an argument of Dynamo's graph is a changing float. Where an operator takes it as a
    number AOTAutograd makes a constant of its value, under a guard of which the cache's entries
    know nothing: an entry would be found again for every other value."""
    values = [node.meta.get("example_value") for node in module.graph.nodes]
    numbers = [value.node._expr for value in values if isinstance(value, torch.SymFloat)]
    return any(symbol_is_type(s, SymT.FLOAT) for n in numbers for s in n.free_symbols)


@contextlib.contextmanager
def serving(
    options: dict[str, object], module: fx.GraphModule, example_inputs: Sequence[object]
) -> Iterator[None]:
    """Under which AOTAutograd keeps what is compiled of `module`, Dynamo's graph, with `options`,
    and finds it again; of a graph with floats among its arguments it keeps nothing.

    Its key asks for the passes that users gave Inductor's code generators, and imports all of these
    for it: more time than the rest of a warm start, for code that Kiln does not use. Compiles of one
    process take turns (Dynamo's lock), so nobody else's key is made meanwhile.

    AOTAutograd is told of no donated buffer: of graphs with one it refuses a second backward
    (``retain_graph=True``), which donated_inputs.py sees to."""
    tag = torch.compiler.config.cache_key_tag + _tag(options, module, example_inputs)
    with _turn, contextlib.ExitStack() as stack:
        if donates_buffers():
            patch = mock.patch.object(graph_compile, "collect_bw_donated_buffer_idxs", _none)
            stack.enter_context(patch)
        stack.enter_context(torch.compiler.config.patch(cache_key_tag=tag))
        stack.enter_context(torch._functorch.config.patch(cse=False))  # common_subexpressions.py
        if _takes_floats(module):
            stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        elif keeps_any_backend():
            switches = dict.fromkeys(CACHE_SWITCHES, True)
            stack.enter_context(torch._functorch.config.patch(switches))
        if registers_code_generators():
            stack.enter_context(mock.patch.object(codecache, "init_backend_registration", _nothing))
        yield
