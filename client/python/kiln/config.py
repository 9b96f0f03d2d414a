"""Options of compiles, flat.

    kiln.config.max_fusion_size = 16
    with kiln.config.patch(emulate_precision_casts=True): ...

    @kiln.config.patch(max_fusion_size=1)
    def one_kernel_each(): ...

An option is read when a graph is compiled. ``torch.compile(..., options={...})`` sets it for one
model, ``KILN_OPTIONS="name=value,name=value"`` for a process. Every option is known by name: one
that is not is refused, never ignored; so is a value out of bounds.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple, TypeVar

from .forked import open_in_child


class _Option(NamedTuple):
    default: object
    field: int  # of kiln.wire.ArtifactOptions; 0: the client's own
    meaning: str
    least: int = 0  # of an integer; these bounds are the compiler's too (compile_options_from_wire)
    most: int = 0  # of an integer, or of a text's bytes
    says_off: bool = False  # the field is set where the option is not
    takes: Callable[[object], bool] | None = None  # what may be in a tuple
    due: str = ""  # that, in words
    words: tuple[str, ...] = ()  # the only ones


def _is_size(item: object) -> bool:
    numbers = item if isinstance(item, tuple) else (item,)
    return all(type(number) is int for number in numbers)


def _is_operator(item: object) -> bool:
    return isinstance(item, str) and "::" in item


_OPERATORS = {"takes": _is_operator, "due": "ns::op or ns::op.overload"}

OPTIONS = {
    "max_fusion_size": _Option(64, 1, "the most loops in one kernel", 1, 4096),
    "persistent_max_row": _Option(
        0, 2, "elements of a row kept in registers; 0: by target", 0, 1 << 20
    ),
    "unroll_reductions_threshold": _Option(
        8, 14, "reductions of fewer elements become expressions; 1: none does", 1, 64
    ),
    "split_reductions": _Option(
        True, 26, "long reductions may be computed in parts, combined afterwards", says_off=True
    ),
    "deterministic": _Option(False, 3, "equal inputs give equal results on every device"),
    "emulate_precision_casts": _Option(False, 7, "round half types after each operator"),
    "layout_optimization": _Option(
        True,
        24,
        "images lie channels-last inside of a graph: of convolutions on a GPU, and of inference in "
        "float32 on the CPU",
        says_off=True,
    ),
    "no_fusion": _Option(False, 8, "one kernel a loop, for debugging"),
    "cache_tag": _Option("", 9, "a word of your own in every key", 0, 256),
    "fallback_random": _Option(False, 0, "random operators run in PyTorch"),
    "shape_padding": _Option(
        True, 15, "products on CUDA may be computed in whole vectors", says_off=True
    ),
    "comprehensive_padding": _Option(
        True, 16, "rows of temporaries may get a longer stride", says_off=True
    ),
    "inplace_padding": _Option(
        True, 17, "a padded operand may be its source's own memory", says_off=True
    ),
    "force_shape_pad": _Option(False, 18, "products on CUDA are padded whether it pays or not"),
    "fuse_linear_cross_entropy": _Option(False, 0, "a linear and its loss never hold all logits"),
    "can_inplace_pad_graph_input": _Option(False, 19, "so may an input's memory, for tests"),
    "own_attention": _Option(False, 25, "attention on CUDA is Kiln's own, where cuDNN has it too"),
    "max_autotune": _Option(
        False, 0, "the daemon measures what can be chosen, and then compiles; as mode='max-autotune'"
    ),
    "cpp_wrapper": _Option(False, 0, "of no effect: Kiln's runtime, in C++, runs every call"),
    # Device graphs, on GPUs (graph_trees.py).
    "cudagraphs": _Option(False, 0, "calls are replayed; as mode='reduce-overhead'"),
    "cudagraph_skip_dynamic_graphs": _Option(False, 0, "none of graphs with symbolic sizes"),
    "cudagraph_capture_sizes": _Option(
        (),
        0,
        "sizes that alone get a graph; empty: all",
        takes=_is_size,
        due="integers, or tuples of them",
    ),
    "cudagraph_dynamic_shape_warn_limit": _Option(
        8, 0, "sizes of one graph before a warning; 0: none", 0, 1 << 30
    ),
    "cudagraph_unexpected_rerecord_limit": _Option(
        128, 0, "recordings at one place since an address had changed", 0, 1 << 30
    ),
    "cudagraph_support_input_mutation": _Option(True, 0, "outputs of graphs may be written"),
    "graph_partition": _Option(True, 0, "what can be no graph cuts it; else all of it is none"),
    "reorder_for_reducing_graph_partitions": _Option(
        True, 0, "steps are put in an order that cuts a graph into few parts"
    ),
    "cudagraph_unsafe_unbacked_ops": _Option(
        (), 0, "operators whose sizes, found in data, are in no graph", **_OPERATORS
    ),
    "custom_should_partition_ops": _Option(
        (), 0, "operators that are in no graph, by names", **_OPERATORS
    ),
    "cudagraph_or_error": _Option(False, 0, "a graph that cannot be one is an error"),
    "skip_cudagraph_warmup": _Option(False, 0, "the first call is recorded"),
    "force_cudagraphs_warmup": _Option(False, 0, "every call is a warm-up, for debugging"),
    "slow_path_cudagraph_asserts": _Option(False, 0, "the pool is compared with what is in use"),
    "trace": _Option("", 0, "a folder for Chrome traces, one of each call of a graph", 0, 4096),
    "kernel_backend": _Option("kiln", 0, "what profilers are told made a kernel", 0, 64),
    "descriptive_names": _Option(
        "original_aten",
        0,
        "what kernels are named by",
        most=64,
        words=("original_aten", "torch", "inductor_node"),
    ),
}

# Those that say what becomes device graphs.
OF_GRAPHS = tuple(
    name for name in OPTIONS if "cudagraph" in name or "partition" in name
)

_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


def switched_on(name: str) -> bool:
    """The value of an environment variable that is 0 or 1, "false" or "true"; 0 when it is not set.
    ValueError for other words."""
    text = os.environ.get(name) or "0"
    if text.lower() not in _BOOLEANS:
        raise ValueError(f"{name}: found {text!r}, expected 0 or 1")
    return _BOOLEANS[text.lower()]


def _unknown(where: str, name: str) -> AttributeError:
    """With what is near; or all that can be set."""
    names = sorted(OPTIONS)
    near = difflib.get_close_matches(name, names, n=1)
    due = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(names)}"
    return AttributeError(f"{where}{name}: there is no such option; {due}")


def _checked(name: str, value: object, where: str = "kiln.config.") -> object:
    """The value to keep. AttributeError, TypeError, ValueError that begin with where it was set and
    the name."""
    option = OPTIONS.get(name)
    if option is None:
        raise _unknown(where, name)
    if isinstance(value, list):  # as some of Inductor's are
        value = tuple(tuple(item) if isinstance(item, list) else item for item in value)
    if type(value) is not type(option.default):
        due = type(option.default).__name__
        raise TypeError(f"{where}{name}: found {value!r}, expected {due}")
    _check_bounds(where + name, option, value)
    return value


def _check_bounds(name: str, option: _Option, value: object) -> None:
    if isinstance(value, str):
        size = len(value.encode(errors="replace"))
        if size > option.most:
            raise ValueError(f"{name}: found {size} bytes, expected at most {option.most}")
        if option.words and value not in option.words:
            raise ValueError(f"{name}: found {value!r}, expected {', '.join(option.words)}")
    elif isinstance(value, tuple):
        for item in value:
            if not option.takes(item):
                raise TypeError(f"{name}: found {item!r} in it, expected {option.due}")
    elif not isinstance(value, bool) and not option.least <= value <= option.most:
        raise ValueError(f"{name}: found {value}, expected {option.least} to {option.most}")


def _parsed(name: str, text: str) -> object:
    default = OPTIONS[name].default if name in OPTIONS else None
    if isinstance(default, bool):
        if text.lower() not in _BOOLEANS:
            raise ValueError(f"KILN_OPTIONS: {name}: found {text!r}, expected 0 or 1")
        return _BOOLEANS[text.lower()]
    if not isinstance(default, int):
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"KILN_OPTIONS: {name}: found {text!r}, expected a number") from None


def _from_environment() -> dict[str, object]:
    found: dict[str, object] = {}
    if switched_on("KILN_DISABLE"):  # what turns Kiln off works whatever else is set
        return found
    for word in os.environ.get("KILN_OPTIONS", "").split(","):
        if not word.strip():
            continue
        name, mark, text = (part.strip() for part in word.partition("="))
        if not mark:
            raise ValueError(f"KILN_OPTIONS: found {word!r}, expected name=value")
        found[name] = _checked(name, _parsed(name, text), "KILN_OPTIONS: ")
    return found


# The options as attributes, for type checkers and editors. They have no values here: _layers has.
max_fusion_size: int
persistent_max_row: int
unroll_reductions_threshold: int
split_reductions: bool
deterministic: bool
layout_optimization: bool
emulate_precision_casts: bool
no_fusion: bool
cache_tag: str
fallback_random: bool
cudagraphs: bool
cudagraph_skip_dynamic_graphs: bool
cudagraph_capture_sizes: tuple
cudagraph_dynamic_shape_warn_limit: int
cudagraph_unexpected_rerecord_limit: int
cudagraph_support_input_mutation: bool
graph_partition: bool
reorder_for_reducing_graph_partitions: bool
cudagraph_unsafe_unbacked_ops: tuple
custom_should_partition_ops: tuple
cudagraph_or_error: bool
skip_cudagraph_warmup: bool
force_cudagraphs_warmup: bool
slow_path_cudagraph_asserts: bool
kernel_backend: str
descriptive_names: str
inplace_padding: bool
can_inplace_pad_graph_input: bool
own_attention: bool
force_shape_pad: bool
fuse_linear_cross_entropy: bool
shape_padding: bool
comprehensive_padding: bool
max_autotune: bool
cpp_wrapper: bool
trace: str


def snapshot(changes: Mapping[str, object] | None = None) -> dict[str, object]:
    """All options as they are now, with `changes`, the ``options`` of a model."""
    with _lock:
        values = {name: value for layer in _layers for name, value in layer.items()}
    for name, value in (changes or {}).items():
        values[name] = _checked(name, value, "options: ")
    return values


_NOT_GIVEN = object()
_PATCH = "kiln.config.patch"
_Function = TypeVar("_Function", bound=Callable[..., object])


def _changes(first: object, value: object, named: dict[str, object]) -> dict[str, object]:
    """What a patch is to set, by name."""
    if value is not _NOT_GIVEN:
        first = {first: value} if isinstance(first, str) else (first, value)
    elif first is _NOT_GIVEN:
        first = {}
    if not isinstance(first, Mapping) or not all(isinstance(name, str) for name in first):
        due = "a dict of names and values, a name and its value, or name=value"
        raise TypeError(f"{_PATCH}: found {first!r}, expected {due}")
    return {name: _checked(name, value) for name, value in {**first, **named}.items()}


# All functions that contextlib made of a generator have one code.
_MANAGERS = tuple(
    make(lambda: (yield)).__code__
    for make in (contextlib.contextmanager, contextlib.asynccontextmanager)
)


def _body_of(function: Callable[..., object]) -> Callable[..., object]:
    """What a call of it runs: of an object its ``__call__``."""
    is_one = inspect.isroutine(function) or isinstance(function, functools.partial)
    return function if is_one else type(function).__call__


def _where() -> tuple[int, object]:
    """The thread, and of asyncio the task."""
    asyncio = sys.modules.get("asyncio")
    try:
        return threading.get_ident(), asyncio.current_task() if asyncio else None
    except RuntimeError:  # no event loop runs
        return threading.get_ident(), None


def _check_decorated(function: object) -> None:
    """TypeError for what cannot be called with options in force until it has ended."""
    if isinstance(function, type):
        found, hint = f"the class {function.__qualname__}", "decorate its methods"
    elif isinstance(function, (staticmethod, classmethod)):
        kind = type(function).__name__
        found, hint = f"a {kind}", f"write @{kind} above the patch"
    elif getattr(function, "__code__", None) in _MANAGERS:
        found = f"the context manager {function.__qualname__}"
        hint = "decorate the generator, below contextlib's decorator"
    elif callable(function) and inspect.isasyncgenfunction(_body_of(function)):
        found = f"the asynchronous generator {getattr(function, '__qualname__', function)}"
        hint = f"write `with {_PATCH}(...):` in it"
    elif not callable(function):
        found, hint = repr(function), "or write `with`"
    else:
        return
    raise TypeError(f"{_PATCH}: found {found}, expected a function; {hint}")


class patch(contextlib.ContextDecorator):
    """Sets options for a block, or, as a decorator, for each call of a function:

        with kiln.config.patch(max_fusion_size=1): ...
        @kiln.config.patch({"max_fusion_size": 1})  # or ("max_fusion_size", 1), as PyTorch's own
        def one_kernel_each(): ...

    They hold in all threads; what others set meanwhile stays when it ends. One patch serves many
    blocks, also within each other. Of an ``async def`` they hold while its body is run, awaits
    too; of a generator from its first item until it ends or is closed, also between the items.

    AttributeError, TypeError, ValueError here for an option that is wrong;
    TypeError for a class, or what else is no function, under the decorator."""

    def __init__(
        self, first: object = _NOT_GIVEN, value: object = _NOT_GIVEN, /, **changes: object
    ) -> None:
        self._changes = _changes(first, value, changes)
        self._begun: list[tuple[tuple[int, object], dict[str, object]]] = []  # where, and its layer

    def __repr__(self) -> str:
        return f"{_PATCH}({self._changes})"

    def __enter__(self) -> None:
        global _layers
        layer = dict(self._changes)
        with _lock:
            self._begun.append((_where(), layer))
            _layers = [*_layers, layer]

    def __exit__(self, *_: object) -> None:
        global _layers
        here = _where()
        with _lock:
            if not self._begun:
                raise RuntimeError(f"{_PATCH}: a block ends that has not begun")
            # The last that this thread or task began; or, where another one did, the last of all.
            ended = max(range(len(self._begun)), key=lambda i: (self._begun[i][0] == here, i))
            _, layer = self._begun.pop(ended)
            _layers = [other for other in _layers if other is not layer]

    def __call__(self, function: _Function) -> _Function:
        _check_decorated(function)
        if inspect.iscoroutinefunction(_body_of(function)):

            @functools.wraps(function)
            async def awaited(*args: object, **kwargs: object) -> object:
                with patch(self._changes):
                    return await function(*args, **kwargs)

            return awaited
        if inspect.isgeneratorfunction(_body_of(function)):

            @functools.wraps(function)
            def generated(*args: object, **kwargs: object) -> Generator:
                with patch(self._changes):
                    return (yield from function(*args, **kwargs))

            return generated
        return super().__call__(function)


class _Config(types.ModuleType):
    """This module: attributes are options. What a patch set lies above what was there, the last one
    begun on top; a patch that ends takes its own away, wherever it lies by then."""

    def __getattr__(self, name: str) -> object:
        for layer in reversed(self.__dict__["_layers"]):
            if name in layer:
                return layer[name]
        raise _unknown("kiln.config.", name)

    def __repr__(self) -> str:
        return f"<kiln.config: {', '.join(f'{name}={getattr(self, name)!r}' for name in OPTIONS)}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(type(self)), *OPTIONS})

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
            return
        value = _checked(name, value)
        with _lock:
            next(layer for layer in reversed(_layers) if name in layer)[name] = value

    def __delattr__(self, name: str) -> None:
        if name.startswith("__"):
            super().__delattr__(name)
            return
        if name not in OPTIONS:
            raise _unknown("kiln.config.", name)
        raise AttributeError(
            f"kiln.config.{name}: an option cannot be deleted; set it to its default, "
            f"{OPTIONS[name].default!r}, or for a time with {_PATCH}"
        )


_lock = open_in_child(threading.Lock())
_layers = [{name: option.default for name, option in OPTIONS.items()} | _from_environment()]
sys.modules[__name__].__class__ = _Config
