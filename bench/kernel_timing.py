"""What the kernel benchmarks share: clocks, the comparison with a reference, tables and summaries.

On a GPU one whole compiled call lies between two CUDA events; before it 256 MB are written, which
empties the L2 cache, and a kernel sleeps on the device until the host has queued the call. The
figure is the median of several calls after a few that do not count. The CPU is timed by the wall
clock.

Lines that a kernel loads with the policy evict_last survive such writes: a kernel that asks for it
found its inputs of the call before in L2 (Inductor's cat of 10 MB: 8.1 us, and 9.8 us with other
inputs each time). So persisting lines are made ordinary ones before the writes.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import json
import math
import os
import statistics
import time
import types
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

import torch

from kernel_families import ALONE, Family, Maker, nbytes

FLUSH_BYTES = 256 * 2**20
COPY_BYTES = 512 * 2**20
SLEEP_MS = 2.0
# The largest relative error, in the norm of a whole result, where inputs or results are of this
# type. Integers and booleans must be equal.
TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}


def in_turns(
    turns: int, names: Iterable[str], measure: Callable[[str], float]
) -> dict[str, float]:
    """The median of what `measure` finds for each name, one after another in each turn, forwards
    and backwards by turns."""
    seen: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        for name in list(seen)[:: 1 if turn % 2 == 0 else -1]:
            seen[name].append(measure(name))
    return {name: statistics.median(times) for name, times in seen.items() if times}


class GpuClock:
    """Times calls on the current GPU."""

    def __init__(
        self, repeats: int = 15, warmups: int = 4, sleep_ms: float = SLEEP_MS
    ) -> None:
        self.repeats, self.warmups, self._sleep_ms = repeats, warmups, sleep_ms
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._cycles_per_ms = 1e6
        for _ in range(3):  # the first ones also bring the clock up
            self._cycles_per_ms *= 100 / self._once(lambda: None, self._sleep_100_ms)[0]

    def _sleep_100_ms(self, _: object) -> None:
        torch.cuda._sleep(int(100 * self._cycles_per_ms))

    def _empty_l2(self) -> None:
        result = self._driver.cuCtxResetPersistingL2Cache()
        if result != 0:
            raise RuntimeError(f"cuCtxResetPersistingL2Cache: CUDA error {result}")
        self._flush.zero_()

    def _once(self, prepare: Callable, run: Callable, sleep_ms: float = 0) -> tuple[float, float]:
        """Milliseconds on the device and on the host."""
        begin, end = self._events
        state = prepare()
        self._empty_l2()
        if sleep_ms:
            torch.cuda._sleep(int(sleep_ms * self._cycles_per_ms))
        begin.record()
        begun = time.perf_counter()
        results = run(state)
        host = 1e3 * (time.perf_counter() - begun)
        end.record()
        end.synchronize()
        del results
        return begin.elapsed_time(end), host

    def measure(self, prepare: Callable, run: Callable) -> float:
        """The median milliseconds of `run(prepare())`, of which `run` is timed."""
        return self.measure_in_turns({"": (prepare, run)})[""]

    def measure_in_turns(self, calls: dict[str, tuple[Callable, Callable]]) -> dict[str, float]:
        """The median milliseconds of each, measured one after another in each turn.

        The device sleeps for `sleep_ms`, or longer where the host takes longer to queue a call.
        """
        sleeps = {}
        for name, call in calls.items():
            host = [self._once(*call, self._sleep_ms)[1] for _ in range(self.warmups)]
            sleeps[name] = max([self._sleep_ms, 1.5 * statistics.median(host or [0])])
        return in_turns(self.repeats, calls, lambda n: self._once(*calls[n], sleeps[n])[0])

    def wait(self) -> None:
        torch.cuda.synchronize()

    def release(self) -> None:
        """Gives free memory back to the device."""
        gc.collect()
        torch.cuda.empty_cache()

    def empty_kernel_ms(self) -> float:
        return self.measure(lambda: None, lambda _: torch.cuda._sleep(0))

    def copy_bandwidth(self) -> float:
        """Bytes a millisecond of a copy on the device: those read and those written."""
        source = torch.ones(COPY_BYTES, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        return 2 * COPY_BYTES / self.measure(lambda: None, lambda _: target.copy_(source))


class CpuClock:
    """Times calls on the CPU by the wall clock."""

    def __init__(self, repeats: int = 15, warmups: int = 4) -> None:
        self.repeats, self.warmups = repeats, warmups

    def _once(self, prepare: Callable, run: Callable) -> float:
        state = prepare()
        begun = time.perf_counter()
        results = run(state)
        took = 1e3 * (time.perf_counter() - begun)
        del results
        return took

    def measure(self, prepare: Callable, run: Callable) -> float:
        return self.measure_in_turns({"": (prepare, run)})[""]

    def measure_in_turns(self, calls: dict[str, tuple[Callable, Callable]]) -> dict[str, float]:
        """The median milliseconds of each, measured one after another in each turn."""
        in_turns(self.warmups, calls, lambda name: self._once(*calls[name]))
        return in_turns(self.repeats, calls, lambda name: self._once(*calls[name]))

    def wait(self) -> None:
        pass

    def release(self) -> None:
        gc.collect()


class Case:
    """A family with its inputs. `prepare` and `run` are what a clock measures."""

    def __init__(self, family: Family, maker: Maker) -> None:
        self.family, self._maker = family, maker
        torch.manual_seed(0)
        self.inputs = tuple(family.make(maker))
        self.gradient = None
        if family.backward:
            with torch.no_grad():
                output = family.function(*self.inputs)
            self.gradient = torch.randn_like(output)
            if output.dim() == 0:  # a mean's: scaled, as a loss is, lest float16 underflows
                self.gradient.fill_(min(self.inputs[0].shape[0], 2**15))
            self._track()

    def _track(self) -> None:
        """Asks for the gradients of all floating-point inputs except the buffers."""
        last = len(self.inputs) - self.family.buffers
        self._leaves = [x for x in self.inputs[:last] if x.is_floating_point()]
        for leaf in self._leaves:
            leaf.requires_grad_()

    def own(self) -> Case:
        """A case for one backend: with inputs of its own where calls change them."""
        return Case(self.family, self._maker) if self.family.state else self

    def _in_float64(self) -> Case:
        wide = copy.copy(self)
        wide.inputs = tuple(
            x.detach().double() if x.is_floating_point() else x for x in self.inputs
        )
        if self.gradient is not None:
            wide.gradient = self.gradient.double()
            wide._track()
        return wide

    def prepare(self, function: Callable) -> object:
        """What has to be done before each run: the forward of a backward that is timed alone."""
        return function(*self.inputs) if self.family.backward == ALONE else None

    def run(self, function: Callable, state: object) -> tuple[torch.Tensor, ...]:
        """The results: of the function, then the gradients."""
        if not self.family.backward:
            results = function(*self.inputs)
            if self.family.state:
                return self.family.state(*self.inputs)
            return results if isinstance(results, tuple) else (results,)
        output = state if self.family.backward == ALONE else function(*self.inputs)
        gradients = torch.autograd.grad(output, self._leaves, self.gradient)
        return gradients if self.family.backward == ALONE else (output.detach(), *gradients)

    def results(self, function: Callable) -> tuple[torch.Tensor, ...]:
        return self.run(function, self.prepare(function))

    @cached_property
    def expected(self) -> tuple[torch.Tensor, ...]:
        """Eager mode's results: in float64, except where calls change their inputs."""
        case = self.own() if self.family.state else self._in_float64()
        results = case.results(self.family.function)
        return tuple(x.detach().clone() for x in results) if self.family.state else results

    def errors(self, results: Sequence[torch.Tensor]) -> list[float]:
        """The relative error of each result; none where the family has a check of its own."""
        if self.family.check:
            return []
        return [relative_error(*pair) for pair in zip(results, self.expected, strict=True)]

    def disagreement(self, results: Sequence[torch.Tensor], errors: list[float]) -> str:
        """What is wrong with results of these errors; "" if nothing is."""
        if self.family.check:
            return self.family.check(self.inputs, results)
        inputs = [x.dtype for x in self.inputs if isinstance(x, torch.Tensor)]
        for i, (result, error) in enumerate(zip(results, errors, strict=True)):
            most = 0.0
            if result.is_floating_point():
                most = max(TOLERANCES.get(dtype, 0.0) for dtype in [result.dtype, *inputs])
                most = max(most, self.family.tolerance)
            if not error <= most:  # NaN is wrong too
                return f"result {i}: relative error {error:.1e}, allowed {most:.0e}"
        return ""

    def traffic(self, results: Sequence[torch.Tensor]) -> int:
        """Bytes of the inputs and outputs of the graphs that a call runs. A backward reads its
        gradient and the tensors that its formula needs, and writes the inputs' gradients."""
        family = self.family
        if family.traffic:
            return family.traffic(self.inputs, results)
        if not family.backward:
            return nbytes(*self.inputs, *results)
        saved = family.saved(self.inputs, results[0]) if family.saved else self.inputs
        read = () if family.backward == ALONE else self.inputs
        return nbytes(*read, *results, self.gradient, *saved)


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    """|result - expected| / |expected|; infinite where shapes differ, or integers."""
    if result.shape != expected.shape:
        return math.inf
    if not result.is_floating_point():
        return 0.0 if torch.equal(result, expected) else math.inf
    size = torch.linalg.vector_norm(expected, dtype=torch.float64)
    difference = result.detach().double() - expected
    error = torch.linalg.vector_norm(difference)
    return (error / size if size > 0 else error).item()


def compiled(function: Callable, backend: str, dynamic: bool | None = False) -> Callable:
    """`function` under a backend. Its code is a copy, since Dynamo keeps what it compiled there."""
    if backend == "eager":
        return function
    own = types.FunctionType(
        *(function.__code__.replace(), function.__globals__, function.__name__),
        *(function.__defaults__, function.__closure__),
    )
    return torch.compile(own, backend=backend, dynamic=dynamic)


def words_of(error: BaseException) -> str:
    """The first line that says something, of the error that a backend raised."""
    inner = getattr(error, "inner_exception", None) or error
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    return f"{type(inner).__name__}: {lines[0] if lines else ''}"[:160]


def _host_kernels() -> int:
    import kiln

    return kiln.counters["host_kernels"]


def try_backend(case: Case, called: Callable, backend: str, clock: GpuClock | CpuClock) -> dict:
    """Compiles, and looks at the results: the figures "compile_s", "bytes", "errors" and "wrong",
    for Kiln "host_kernels" as well. Raises what the backend raises."""
    hosts = _host_kernels() if backend == "kiln" else 0
    clock.wait()
    begun = time.perf_counter()
    results = case.results(called)
    clock.wait()
    figures: dict = {"compile_s": time.perf_counter() - begun}
    if backend == "kiln":
        figures["host_kernels"] = _host_kernels() - hosts
    figures["bytes"] = case.traffic(results)
    figures["errors"] = case.errors(results)
    figures["wrong"] = case.disagreement(results, figures["errors"])
    return figures


def measure_backend(
    case: Case,
    backend: str,
    clock: GpuClock | CpuClock,
    dynamic: bool | None = False,
    profile: bool = False,
) -> dict:
    """The figures of one backend: those of try_backend and "ms", with `profile` also "kernels".
    When it fails, "error" alone. `dynamic` is torch.compile's."""
    torch._dynamo.reset()
    try:
        case = case.own()
        called = compiled(case.family.function, backend, dynamic)
        figures = try_backend(case, called, backend, clock)
        figures["ms"] = clock.measure(
            lambda: case.prepare(called), lambda state: case.run(called, state)
        )
        if profile:
            figures["kernels"] = profiled(case, called)
    except Exception as error:  # whatever it is, the other families go on
        return {"error": words_of(error)}
    return figures


def profiled(case: Case, called: Callable, calls: int = 5) -> list[dict]:
    """The kernels of a call, the longest first: name, launches and microseconds a call. Without
    emptying the L2 cache."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(calls):
            case.results(called)
        torch.cuda.synchronize()
    found = [
        {"name": e.key, "count": e.count / calls, "us": e.self_device_time_total / calls}
        for e in profile.key_averages()
        if e.self_device_time_total > 0
    ]
    return sorted(found, key=lambda kernel: -kernel["us"])


def warm_inductor() -> None:
    """Starts Inductor's compile workers, and waits for them, so that no family pays for it."""
    from torch._inductor.async_compile import AsyncCompile

    AsyncCompile.warm_pool()
    with contextlib.suppress(AttributeError):  # only in newer versions
        AsyncCompile.wait_pool_ready()


def geometric_mean(values: Sequence[float], cap: float = math.inf) -> float:
    """With each value capped; NaN of nothing."""
    if not values:
        return math.nan
    return math.exp(statistics.fmean(math.log(min(value, cap)) for value in values))


def milliseconds(figures: dict | None) -> float:
    """NaN where there is no figure."""
    return (figures or {}).get("ms", math.nan)


def cell(value: float, form: str = ".3f") -> str:
    return "-" if math.isnan(value) else format(value, form)


def notes_of(row: dict) -> list[str]:
    """What is to be said of a row: errors, wrong results, operators that PyTorch runs."""
    notes = []
    for backend, figures in row["backends"].items():
        if figures.get("error"):
            notes.append(f"{backend}: {figures['error']}")
        if figures.get("wrong"):
            notes.append(f"WRONG ({backend}): {figures['wrong']}")
        if figures.get("host_kernels"):
            notes.append(f"{figures['host_kernels']} host kernels")
    return notes + _less_accurate(row)


def _less_accurate(row: dict) -> list[str]:
    """Words for results that are right, but far from as accurate as the peers'."""
    errors = {backend: figures.get("errors") or [] for backend, figures in row["backends"].items()}
    ours = errors.pop("kiln", [])
    for i, error in enumerate(ours):
        peers = [theirs[i] for theirs in errors.values() if theirs]
        if peers and error > 10 * max([*peers, 1e-6]):
            return [f"error of result {i} {error:.0e}, of the peers {max(peers):.0e}"]
    return []


def failures(rows: list[dict]) -> list[str]:
    """Families of which Kiln has no figure, or a wrong result."""
    found = []
    for row in rows:
        ours = row["backends"].get("kiln")
        if ours and (ours.get("error") or ours.get("wrong")):
            found.append(row["name"])
    return found


def write_json(path: str | None, facts: dict, rows: list[dict]) -> None:
    """Written anew after each row, so that a run that is cut short keeps its figures."""
    if not path:
        return
    text = json.dumps({"machine": facts, "rows": rows}, indent=1)
    new = Path(f"{path}.new")
    new.write_text(text + "\n", encoding="utf-8")
    os.replace(new, path)


def read_peer(path: str | None) -> dict[str, dict[str, dict]]:
    """{row's name: {backend: figures}} of the backends other than Kiln in an earlier run's JSON."""
    if not path:
        return {}
    rows = json.loads(Path(path).read_text(encoding="utf-8"))["rows"]
    return {
        row["name"]: {b: f for b, f in row["backends"].items() if b != "kiln" and "ms" in f}
        for row in rows
    }
