"""How bench/contractions.py measures one contraction: Kiln and its peers by turns.

Attention's peers are the backends of PyTorch that take the case, of which the fastest counts.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from contraction_cases import Contraction
from kernel_families import Maker
from kernel_timing import Case, compiled, profiled, try_backend, words_of

PEERS = {
    "products": ("eager",),
    "odd": ("inductor",),
    "attention": ("cudnn", "flash", "efficient"),
    "convolutions": ("eager",),
}
BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


def with_backend(peer: str, function: Callable) -> Callable:
    """PyTorch's attention by one of its backends."""

    def attend(*inputs: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(BACKENDS[peer]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # why a backend refuses
            return function(*inputs)

    return attend


class _Part(Case):
    """A case of some of another's inputs."""

    def __init__(self, whole: Case, inputs: list, gradient: torch.Tensor | None) -> None:
        self.family, self.gradient = whole.family, gradient
        self.inputs = tuple(x.detach() for x in inputs)
        if gradient is not None:
            self._track()


class Attention(Case):
    """Computes what is expected for one batch at a time, since its scores in float64 are large."""

    @cached_property
    def expected(self) -> tuple[torch.Tensor, ...]:
        wide, parts = self._in_float64(), []
        function = with_backend("math", self.family.function)
        for i in range(len(self.inputs[0])):
            inputs = [x[i : i + 1] if len(x) > 1 else x for x in wide.inputs]
            gradient = None if wide.gradient is None else wide.gradient[i : i + 1]
            parts.append(_Part(wide, inputs, gradient).results(function))
        return tuple(torch.cat(of).detach() for of in zip(*parts, strict=True))


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


class Contest:
    """Kiln and its peers on one contraction, and the row that is found."""

    def __init__(self, contraction: Contraction, maker: Maker, clock) -> None:
        self._contraction, self._clock, self._called = contraction, clock, {}
        self._case = (Attention if contraction.attends else Case)(contraction.family, maker)
        self.figures: dict[str, dict] = {}

    def enter(self, backend: str) -> bool:
        """Compiles, and checks the results. False where the backend refuses or fails."""
        function = self._contraction.family.function
        try:
            if self._contraction.attends and backend != "kiln":
                called = with_backend(backend, function)
            else:
                called = compiled(function, backend)
            self.figures[backend] = try_backend(self._case, called, backend, self._clock)
        except Exception as error:  # whatever it is, the row tells
            self.figures[backend] = {"error": words_of(error)}
            return False
        self._called[backend] = called
        return True

    def run(self) -> None:
        calls = {backend: self._call(called) for backend, called in self._called.items()}
        for backend, ms in self._clock.measure_in_turns(calls).items():
            self.figures[backend]["ms"] = ms

    def _call(self, called: Callable) -> tuple[Callable, Callable]:
        return lambda: self._case.prepare(called), lambda state: self._case.run(called, state)

    def profile(self, backend: str) -> None:
        self.figures[backend]["kernels"] = profiled(self._case, self._called[backend])


def measure(contraction: Contraction, maker: Maker, clock, profile_below: float = 0.0) -> dict:
    """A row: the figures of Kiln and of each peer; the fastest peer, "best"; the "ratio" of its time
    to Kiln's; the "error" of Kiln over its. Where the ratio is below `profile_below`, the kernels."""
    row = {"name": contraction.name, "group": contraction.group}
    torch._dynamo.reset()
    try:
        contest = Contest(contraction, maker, clock)
    except Exception as error:  # out of memory, say; the other cases go on
        return {**row, "backends": {"kiln": {"error": f"its inputs: {words_of(error)}"}}}
    with tf32(contraction.tf32):
        taken = [contest.enter(peer) for peer in PEERS[contraction.group]]
        if contraction.attends and not any(taken):
            contest.enter("math")
        contest.enter("kiln")
        contest.run()
        row["backends"] = contest.figures
        row.update(judged(contest.figures))
        if row.get("ratio", math.inf) < profile_below:
            contest.profile("kiln")
            contest.profile(row["best"])
    return row


def judged(figures: dict[str, dict]) -> dict:
    timed = {backend: f for backend, f in figures.items() if "ms" in f}
    ours = timed.pop("kiln", None)
    if not timed:
        return {}
    best = min(timed, key=lambda peer: timed[peer]["ms"])
    if ours is None:
        return {"best": best}
    pairs = zip(ours["errors"], timed[best]["errors"], strict=True)
    error = max((a / max(b, 1e-12) for a, b in pairs), default=math.nan)
    return {"best": best, "ratio": timed[best]["ms"] / ours["ms"], "error": error}
