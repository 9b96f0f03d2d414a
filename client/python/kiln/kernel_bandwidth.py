"""``kiln.bandwidth(fn, *args)``: how fast each kernel of a call moves its bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.profiler import ProfilerActivity, profile

from .launches import Launch, Replay, register_launch_hooks

_RUNS = 10
_COPIES = 10
_COPIED_BYTES = {"cpu": 64 << 20, "cuda": 512 << 20}  # beyond the caches of both


@dataclass
class KernelBandwidth:
    """A kernel: launches of a call, the milliseconds of one, and what one reads and writes."""

    name: str
    launches: int
    ms: float
    gb: float
    share: float  # of the speed of a copy

    @property
    def gb_per_s(self) -> float:
        return self.gb / self.ms * 1e3 if self.ms > 0 else 0.0


@dataclass
class Bandwidth:
    """What ``kiln.bandwidth`` found, in the order of the launches. ``print`` it."""

    copy_gb_per_s: float
    kernels: list[KernelBandwidth] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{'launches':>8} {'ms':>9} {'GB':>9} {'GB/s':>8} {'of copy':>8}  kernel"]
        lines += [
            f"{k.launches:8} {k.ms:9.4f} {k.gb:9.6f} {k.gb_per_s:8.1f} {k.share:8.1%}  {k.name}"
            for k in self.kernels
        ]
        lines.append(f"{'':8} {'':9} {'':9} {self.copy_gb_per_s:8.1f} {1:8.1%}  a copy")
        if not self.kernels:
            lines.append("no kernel of Kiln's ran: is it compiled with backend=\"kiln\"?")
        return "\n".join(lines)


@dataclass
class _Seen:
    name: str
    bytes: int
    launches: int = 0
    seconds: list[float] = field(default_factory=list)


_Key = tuple[str, tuple[int, ...], int]  # symbol, extents, bytes: one kernel serves many sizes


def _key_of(kernel: Mapping[str, object]) -> _Key:
    moved = kernel["bytes_read"] + kernel["bytes_written"]
    return kernel["symbol"], tuple(kernel["extents"]), moved


class _Watch:
    """Counts the launches of calls by their kernels; on the CPU, where a launch has ended when it
    returns, it times them too."""

    def __init__(self) -> None:
        self.kernels: dict[_Key, _Seen] = {}
        self.order: list[_Key] = []  # of the launches
        self.device = torch.device("cpu")
        self._begun = 0.0

    def enter(self, launch: Launch | Replay) -> None:
        for kernel in launch["kernels"] if isinstance(launch, Replay) else [launch]:
            key = _key_of(kernel)
            self.kernels.setdefault(key, _Seen(kernel["name"], key[2])).launches += 1
            self.order.append(key)
        self.device = launch.device
        self._begun = time.perf_counter()

    def exit(self, launch: Launch | Replay) -> None:
        if isinstance(launch, Launch):
            taken = time.perf_counter() - self._begun
            self.kernels[_key_of(launch)].seconds.append(taken)


def _copy_seconds(device: torch.device) -> list[float]:
    source = torch.zeros(_COPIED_BYTES[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    taken = []
    for _ in range(_COPIES):
        wait()
        begun = time.perf_counter()
        target.copy_(source)
        wait()
        taken.append(time.perf_counter() - begun)
    return taken


def assign(kernels: dict[_Key, _Seen], order: Sequence[_Key], events: Sequence[tuple]) -> None:
    """Gives kernels the times that a device's clock took of calls that launch all in `order`.
    ``events``: symbol and seconds of each launch, as they began. A symbol that was not launched
    that often in each call keeps no time: which of its sizes was which is not known."""
    seen: dict[str, list[float]] = {}
    for symbol, seconds in events:
        seen.setdefault(symbol, []).append(seconds)
    for symbol, seconds in seen.items():
        keys = [key for key in order if key[0] == symbol]
        if keys and len(seconds) % len(keys) == 0:
            for number, taken in enumerate(seconds):
                kernels[keys[number % len(keys)]].seconds.append(taken)


def _time_on_gpu(
    kernels: dict[_Key, _Seen], order: Sequence[_Key], call: Callable[[], object]
) -> None:
    """By CUPTI's times, which count no gap between two kernels."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(_RUNS):
            call()
        torch.cuda.synchronize()
    for one in kernels.values():
        one.seconds.clear()
    timed = [event for event in seen.events() if event.device_time > 0]
    timed.sort(key=lambda event: event.time_range.start)
    assign(kernels, order, [(event.name, event.device_time / 1e6) for event in timed])


def bandwidth(fn: Callable, *args: object, **kwargs: object) -> Bandwidth:
    """Calls ``fn``, which ``torch.compile(..., backend="kiln")`` made or which calls such, some twenty
    times, and tells of each kernel of Kiln's the quickest launch: ms, GB, GB/s and the share of what
    a large copy on the device reaches. What it writes to, it writes to each time."""
    for _ in range(2):  # compiles, and finds its memory
        fn(*args, **kwargs)
    once, watch = _Watch(), _Watch()
    with register_launch_hooks(once.enter):
        fn(*args, **kwargs)
    with register_launch_hooks(watch.enter, watch.exit):
        for _ in range(_RUNS):
            fn(*args, **kwargs)
    if watch.device.type == "cuda":
        _time_on_gpu(watch.kernels, once.order, lambda: fn(*args, **kwargs))
    copy = 2 * _COPIED_BYTES[watch.device.type] / min(_copy_seconds(watch.device)) / 1e9
    found = Bandwidth(copy)
    for key, one in once.kernels.items():
        seconds = watch.kernels[key].seconds if key in watch.kernels else []
        ms, gb = min(seconds, default=0.0) * 1e3, one.bytes / 1e9
        kernel = KernelBandwidth(one.name, one.launches, ms, gb, 0.0)
        kernel.share = kernel.gb_per_s / copy
        found.kernels.append(kernel)
    return found
