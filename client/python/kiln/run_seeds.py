"""Seeds of runs, from PyTorch's generator of the device that a graph runs on.

    draw = seeds_of(torch.device("cuda", 0))
    seed = draw()       # in each run; the generator's state makes it repeat

    slots = SeedSlots(device, 2)
    with slots.captured():
        ...             # runs that draw are given slots, of two seeds
    slots.draw()        # before each replay

What makes eager mode's numbers repeat on a device makes these repeat: ``torch.manual_seed``,
``torch.cuda.manual_seed``, the state that a checkpoint or ``fork_rng`` puts back.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import torch

from .forked import open_in_child
from .torch_inside import untraced

_WORD = (1 << 64) - 1
_STEP = 4  # offsets of CUDA's generators are multiples of it
_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64's increment

_advancing = open_in_child(threading.Lock())


class Philox(Protocol):
    """What is asked of a CUDA generator. All of it is kept on the host: nothing waits for a GPU."""

    def initial_seed(self) -> int: ...

    def get_offset(self) -> int: ...

    def set_offset(self, offset: int) -> object: ...


@untraced
def _mixed(word: int) -> int:
    """splitmix64's last step: words that differ in a bit differ in half of them."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31


@untraced
def draw_on_host() -> int:
    """A seed of the CPU's generator."""
    return int(torch.empty((), dtype=torch.int64).random_())


@untraced
def draws_of(generator: Philox, count: int) -> list[int]:
    """Seeds of a CUDA generator's, which goes on as if as many operators had drawn. Thread-safe
    among those that draw here."""
    with _advancing:
        seed, offset = generator.initial_seed(), generator.get_offset()
        generator.set_offset(offset + count * _STEP & _WORD)
    own = _mixed(seed + _GOLDEN & _WORD)
    offsets = range(offset, offset + count * _STEP, _STEP)
    # As draw_on_host has it, not negative.
    return [_mixed(own + at * _GOLDEN & _WORD) >> 1 for at in offsets]


# What a run draws from: a seed, or a tensor on the device that holds it when the work runs.
Seed = int | torch.Tensor


class _Capture(threading.local):
    """Of a thread: the slots of the work that it captures."""

    slots: SeedSlots | None = None


_capture = _Capture()


def seeds_of(device: torch.device) -> Callable[[], Seed]:
    """What draws the seed of a run on a device. Of work that is captured it gives a slot. In a
    capture that is none of Kiln's it is the CPU's generator that draws, once for all replays: the
    offset of the device's own is not to be read then."""
    if device.type != "cuda":
        return draw_on_host
    index = device.index or 0

    @untraced
    def draw() -> Seed:
        if torch.cuda.is_current_stream_capturing():
            return draw_on_host() if _capture.slots is None else _capture.slots.take()
        return draws_of(torch.cuda.default_generators[index], 1)[0]

    return draw


class SeedSlots:
    """The seeds of work that is captured once and replayed: 8 bytes each on its device. One thread
    at a time."""

    def __init__(self, device: torch.device, count: int) -> None:
        self._device = device
        with torch.inference_mode(False):
            self._slots = torch.zeros(count, dtype=torch.int64, device=device).unbind()
        self._free: Iterator[torch.Tensor] = iter(self._slots)

    @contextlib.contextmanager
    def captured(self) -> Iterator[None]:
        """In which this thread's runs draw from these slots, in order."""
        _capture.slots = self
        try:
            yield
        finally:
            _capture.slots = None

    def take(self) -> torch.Tensor:
        """The next slot. StopIteration beyond the last."""
        return next(self._free)

    def _seeds(self) -> list[int]:
        count = len(self._slots)
        if self._device.type != "cuda" or torch.cuda.is_current_stream_capturing():
            return [draw_on_host() for _ in range(count)]
        return draws_of(torch.cuda.default_generators[self._device.index or 0], count)

    @untraced
    def draw(self) -> None:
        """Draws the seeds of a replay, all at once. They are arguments of a kernel on the current
        stream, which runs when the replay before this one is done with the slots: no memory of the
        host's is read later."""
        seeds = self._seeds()
        if len(seeds) == 1:
            self._slots[0].fill_(seeds[0])
            return
        torch._foreach_zero_(self._slots)
        torch._foreach_add_(self._slots, seeds)
