"""Launches of kernels, as profilers and hooks see them.

While a profiler of PyTorch is on, each launch is an event of its own: the kernel's name, the shapes
of its arguments, and as attributes what Inductor's launches have. Without a profiler and hooks
nothing here runs.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.autograd import profiler

from . import _native, config, service
from .forked import open_in_child

if TYPE_CHECKING:
    from .kernel_names import SegmentNames

# By Kiln's number of it (kiln.h).
_DTYPES = {
    **{1: torch.bool, 2: torch.uint8, 3: torch.int8, 4: torch.int16, 5: torch.int32},
    **{6: torch.int64, 7: torch.float16, 8: torch.bfloat16, 9: torch.float32, 10: torch.float64},
}
_HASH_LETTERS = 51


class _Facts(Mapping):
    """A mapping of what is in ``_facts``, which each kind of launch has or works out."""

    _facts: Mapping[str, object]

    def __getitem__(self, key: str) -> object:
        return self._facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


class Launch(_Facts):
    """A launch of one kernel, and what is known of it: a mapping that is worked out when it is first
    looked into, which must be while the launch goes on.

    ``name``, ``symbol``, ``operators``, ``nodes`` ((name, operator, source line) of those of the
    graph that it does work of), ``stream``, ``grid``, ``block``, ``shared_bytes``,
    ``cluster``, ``arguments`` ((dtype, sizes) of a tensor, else None), ``mapping``, ``extents``
    (points, and reduced points of each), ``bytes_read``, ``bytes_written``."""

    def __init__(self, capsule: object, name: str, ordinal: int) -> None:
        self.name = name
        self.device = torch.device("cpu") if ordinal < 0 else torch.device("cuda", ordinal)
        self._capsule = capsule

    @functools.cached_property
    def _facts(self) -> dict[str, object]:
        facts = _native.launch_facts(self._capsule)
        facts["operators"] = tuple(facts["operators"].split(",")) if facts["operators"] else ()
        facts["arguments"] = tuple(
            argument and (_DTYPES[argument[0]], argument[1]) for argument in facts["arguments"]
        )
        return {"name": self.name, **facts}

    def __repr__(self) -> str:
        return f"<launch of {self.name} on {self.device}>"

    def source(self) -> str:
        """What was written for the compiler of this kernel, and of those it was built with."""
        return _native.launch_source(self._capsule)


class Replay(_Facts):
    """A launch of a device graph, and what is known of the kernels of Kiln's in it: a mapping of
    ``name``, ``stream`` (the one that is current) and ``kernels``, of each what was known of its
    launch when it was captured."""

    name = "kiln_graph_replay"

    def __init__(self, device: torch.device, kernels: Sequence[dict]) -> None:
        self.device = device
        self._kernels = tuple(kernels)

    @property
    def _facts(self) -> dict[str, object]:
        is_gpu = self.device.type == "cuda"
        stream = torch.cuda.current_stream(self.device).cuda_stream if is_gpu else 0
        return {"name": self.name, "stream": stream, "kernels": self._kernels}

    @property
    def kernel_names(self) -> tuple[str, ...]:
        return tuple(kernel["name"] for kernel in self._kernels)

    def wait(self) -> tuple[str, ...]:
        """For a trace: waits until it has run. Gives the names of its kernels."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        return self.kernel_names

    def __repr__(self) -> str:
        return f"<replay of {len(self._kernels)} kernels on {self.device}>"


_Hook = Callable[["Launch | Replay"], object]
_hooks: list[LaunchHooks] = []
_changing = open_in_child(threading.Lock())


class LaunchHooks:
    """What ``register_launch_hooks`` gives. Of use as a context too."""

    def __init__(self, enter: _Hook | None, exit: _Hook | None) -> None:
        self._enter, self._exit = enter, exit

    def remove(self) -> None:
        """Once more does nothing."""
        global _hooks
        with _changing:
            _hooks = [other for other in _hooks if other is not self]
            _native.watch_launches(bool(_hooks))

    def __enter__(self) -> LaunchHooks:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


@contextlib.contextmanager
def captured_launches() -> Iterator[list[dict]]:
    """In which this thread's runs are captured: what is known of each launch is added to the list,
    and none is a step of a trace."""
    seen: list[dict] = []
    thread = threading.get_ident()

    def add(launch: Launch) -> None:
        if threading.get_ident() == thread and isinstance(launch, Launch):
            seen.append(dict(launch))

    _native.capturing(True)
    try:
        with register_launch_hooks(add):
            yield seen
    finally:
        _native.capturing(False)


def register_launch_hooks(enter: _Hook | None = None, exit: _Hook | None = None) -> LaunchHooks:
    """Has ``enter(launch)`` called before each launch of a kernel and ``exit(launch)`` after it, on
    the thread that runs, in all threads. A device graph is one launch, a ``Replay``. What a hook
    raises ends the call that launched, when its kernels are launched; hooks that were told of the
    launch are told of its end all the same."""
    global _hooks
    for name, hook in (("enter", enter), ("exit", exit)):
        if hook is not None and not callable(hook):
            raise TypeError(f"kiln.register_launch_hooks: {name}: found {hook!r}, expected a function")
    hooks = LaunchHooks(enter, exit)
    with _changing:
        _hooks = [*_hooks, hooks]
        _native.watch_launches(True)
    return hooks


@functools.lru_cache(maxsize=4096)
def _shaped(dtype: torch.dtype, sizes: tuple[int, ...]) -> torch.Tensor:
    made = []
    # Made by a thread that no profiler watches: this operator is not the program's.
    thread = threading.Thread(
        target=lambda: made.append(torch.empty(sizes, dtype=dtype, device="meta"))
    )
    thread.start()
    thread.join()
    return made[0]


def _arguments_of(launch: Launch) -> list[object]:
    """Tensors like the kernel's, without memory, and numbers; then how many points there are."""
    given = [argument and _shaped(*argument) for argument in launch["arguments"]]
    return [0 if value is None else value for value in given] + list(launch["extents"])


def source_hash(text: str) -> str:
    """As PyTorch's own code cache names a source."""
    digest = hashlib.sha256(text.strip().encode()).digest()
    return "c" + base64.b32encode(digest)[:_HASH_LETTERS].decode().lower()


_files: dict[tuple[str, str], tuple[str, str]] = {}


def _file_of(launch: Launch) -> tuple[str, str]:
    """Where the kernel's source is, and its hash. Written when first asked for; there for good."""
    key = launch["symbol"], launch.device.type
    if key not in _files or not os.path.exists(_files[key][0]):
        text = launch.source().strip()
        name = source_hash(text)
        ending = "cpp" if launch.device.type == "cpu" else "cu"
        path = service.data_folder() / "sources" / name[:2] / f"{name}.{ending}"
        _write(path, text)
        _files[key] = str(path), name
    return _files[key]


def _write(path: Path, text: str) -> None:
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _attributes_of(launch: Launch, backend: str | None) -> dict[str, object]:
    path, name = _file_of(launch)
    block = launch["block"]
    mapping = dict(pair.split("=") for pair in launch["mapping"].split(",") if pair)
    return {
        "kernel_backend": config.kernel_backend if backend is None else backend,
        "kernel_file": path,
        "kernel_hash": name,
        "kernel_kwargs": launch["mapping"],
        "kernel_name": launch.name,
        "kernel_nodes": ",".join(name for name, _, _ in launch["nodes"]),
        "kernel_num_gb": (launch["bytes_read"] + launch["bytes_written"]) / 1e9,
        "num_stages": max(int(mapping.get("STAGES", 1)), 1),
        "num_warps": max(block[0] * block[1] * block[2] // 32, 1),
        "source_lines": ", ".join(dict.fromkeys(line for _, _, line in launch["nodes"] if line)),
        "stream": launch["stream"],
    }


def _enter(
    capsule: object, label: str, ordinal: int, name_of: SegmentNames | None
) -> tuple:
    """``name_of``: of one of several segments, or of a model with an option of its own."""
    launch = Launch(capsule, label if name_of is None else name_of(label), ordinal)
    backend = None if name_of is None else name_of.backend
    return _entered(launch, lambda: (_arguments_of(launch), _attributes_of(launch, backend)))


# What a profiler that is on when a device graph is replayed notes in its trace; graph_device.py.
noted_of_replays: dict[str, str] = {}


def _enter_replay(replay: Replay) -> tuple:
    if profiler._is_profiler_enabled:
        for name, value in noted_of_replays.items():
            torch.autograd._add_metadata_json(name, value)
    attributes = {"kernels": ",".join(replay.kernel_names), "stream": replay["stream"]}
    return _entered(replay, lambda: ([], attributes))


def _entered(launch: Launch | Replay, told: Callable[[], tuple[list, dict]]) -> tuple:
    """Tells hooks, and a profiler what ``told`` gives: arguments and attributes."""
    entered, event = [], None
    try:
        for hook in _hooks:
            if hook._enter is not None:
                hook._enter(launch)
            entered.append(hook)
        if profiler._is_profiler_enabled:
            event = torch._C._profiler._RecordFunctionFast(launch.name, *told())
            event.__enter__()
    except BaseException:
        _exit((launch, entered, None))  # of those that were told
        raise
    return launch, entered, event


def _exit(entered: tuple) -> None:
    """Tells all, whatever one of them raises."""
    launch, hooks, event = entered
    with contextlib.ExitStack() as stack:
        for hook in reversed(hooks):
            if hook._exit is not None:
                stack.callback(hook._exit, launch)
        if event is not None:
            event.__exit__(None, None, None)


_native.launch_watchers(_enter, _exit, _enter_replay, profiler)
