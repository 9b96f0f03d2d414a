"""Device graphs: Kiln beside Inductor, both under mode="reduce-overhead", in one run.

usage: ./kiln bench graphs [CASE...] [--turns N] [--steps N] [--seconds N]

Each case and backend is a process that compiles, warms up and records, and then waits. Kiln's do so
together, Inductor's one at a time, since Inductor times kernels while it compiles. When all are ready
they measure in turns, one process at a time. Figures are medians of the turns.

  resnet50 gpt2 bert   a training step, forward and backward, of bench/torch_compile.py's models
  decode1 decode16     a token of a Llama-like decoder (bench/decoder.py), 1 and 16 rows
  calls                a call of a small linear layer, with static inputs and with one that is copied; and what a
                       replay from C++ costs beside a bare launch, by tests/bench:replay_bench: KILN_REPLAY_BENCH, or
                       that of bazel-bin
  path                 the pool's memory for 20 recordings in a row, and for the largest alone

Of steps: "step" is the time of a step where nothing waits between steps; "kernels" the sum of the
times of its kernels and copies by the profiler, "busy" the time with at least one of them on the
GPU; "record" the time of the second step, which is recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from environment import command_line, machine, with_caches

BACKENDS = ("inductor", "kiln")
STEPS = ("resnet50", "gpt2", "bert", "decode1", "decode16")
CASES = (*STEPS, "calls", "path")


class Child:
    """A process of graph_cases.py."""

    def __init__(self, case: str, backend: str, steps: int, folder: str) -> None:
        self.case, self.backend = case, backend
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "graph_cases.py")
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, program, case, backend, str(steps)],
            env=with_caches(folder, peers=f"{folder}/{case}"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.turns: list[dict[str, float]] = []
        self.once: dict[str, float] | None = None
        self._answers: queue.Queue[dict[str, float] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.startswith("FIGURES "):
                self._answers.put(json.loads(line.removeprefix("FIGURES ")))
        self._answers.put(None)

    def begin(self, what: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has failed; the answer says so
            self._process.stdin.write(f"{what}\n")
            self._process.stdin.flush()

    def compile(self, until: float) -> None:
        """Waits for what `begin` was asked for, until then."""
        try:
            self.once = self._answers.get(timeout=max(until - time.monotonic(), 0.1))
        except queue.Empty:
            self._process.kill()
            print(f"{self.case} {self.backend}: not compiled within --seconds", flush=True)

    def measure(self) -> None:
        if self.once is None:
            return
        self.begin("measure")
        answer = self._answers.get()
        if answer is None:
            self.once = None
        else:
            self.turns.append(answer)

    def end(self) -> None:
        """Says what went wrong, if anything did."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        if self.once is None:
            self._errors.seek(0)
            print(f"{self.case} {self.backend} FAILED\n{self._errors.read()[-2500:]}", flush=True)

    def figures(self) -> dict[str, float]:
        medians = {
            name: statistics.median(turn[name] for turn in self.turns) for name in self.turns[0]
        }
        return {**self.once, **medians}


def run(
    cases: list[str], backends: list[str], turns: int, steps: int, seconds: float
) -> list[Child]:
    """The processes of all cases, measured and ended. Inductor's is the first of each case."""
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="kiln-graphs-") as folder:
        children = [Child(case, b, steps, folder) for case in cases for b in backends]
        ours = [child for child in children if child.backend == "kiln"]
        for child in ours:
            child.begin("compile")
        for child in ours:
            child.compile(until)
        for child in children:
            if child not in ours:
                child.begin("compile")
                child.compile(until)
        for _ in range(turns):
            for child in children:
                child.measure()
        for child in children:
            child.end()
    return children


def row(*cells: object) -> None:
    print("| " + " | ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells) + " |")


def head(*names: str) -> None:
    row(*names)
    print("|" + "---|" * len(names), flush=True)


def ratios(child: Child, of: dict[str, Child], name: str) -> list[object]:
    """A figure over Inductor's, in Kiln's row."""
    peer = of.get("inductor")
    if child.backend != "kiln" or peer is None or peer.once is None:
        return [""]
    if name not in peer.figures():  # Kiln's own part
        return [""]
    return [child.figures()[name] / peer.figures()[name]]


def print_steps(case: str, of: dict[str, Child]) -> None:
    for child in of.values():
        f = child.figures()
        row(
            *(case, child.backend, f["step_ms"], f["kernels_ms"], f["busy_ms"]),
            *(f["step_ms"] / f["kernels_ms"], f["step_ms"] / f["busy_ms"]),
            *ratios(child, of, "step_ms"),
            *(f["record_ms"], f["first_s"], f["recordings"], f["skips"]),
        )


def print_rest(case: str, of: dict[str, Child], names: tuple[str, ...]) -> None:
    for child in of.values():
        for name in names:
            if name in child.figures():
                row(case, child.backend, name, child.figures()[name], *ratios(child, of, name))


def replays_from_cpp() -> None:
    """The table of the program that measures them."""
    program = os.environ.get("KILN_REPLAY_BENCH", "bazel-bin/tests/bench/replay_bench")
    if not os.path.exists(program):
        sys.exit(
            f"kiln bench graphs: no {program}; bazel build //tests/bench:replay_bench makes it, "
            "or set KILN_REPLAY_BENCH"
        )
    subprocess.run([program, "--device=cuda"], check=True)
    print("\nbar: own part 1.5 us", flush=True)


def report(children: list[Child]) -> None:
    by_case: dict[str, dict[str, Child]] = {}
    for child in children:
        if child.once is not None:
            by_case.setdefault(child.case, {})[child.backend] = child
    if any(case in STEPS for case in by_case):
        print("\nms; bars: step / kernels 1.05, Kiln / Inductor 1.02, record of gpt2 500")
        head(
            *("case", "backend", "step", "kernels", "busy", "step / kernels", "step / busy"),
            *("Kiln / Inductor", "record", "first, s", "recordings", "skips"),
        )
    for case, of in by_case.items():
        if case in STEPS:
            print_steps(case, of)
    if any(case not in STEPS for case in by_case):
        print("\nbars: static_us 0.6 of Inductor's, own_us 5, path_mib within 2 % of Inductor's")
        head("case", "backend", "figure", "value", "Kiln / Inductor")
    for case, of in by_case.items():
        if case == "calls":
            print_rest(case, of, ("static_us", "copied_us", "own_us", "own_copied_us", "bare_us"))
        elif case == "path":
            print_rest(case, of, ("path_mib", "largest_mib", "recordings"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of a turn")
    parser.add_argument("--seconds", type=float, default=1200, help="in which all must compile")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    options = parser.parse_args()
    for case in options.cases:
        if case not in CASES:
            parser.error(f"there is no case {case}; there are {', '.join(CASES)}")
    backends = [backend for backend in BACKENDS if backend in options.backends.split(",")]
    if not backends:
        parser.error(f"--backends {options.backends}: expected some of {', '.join(BACKENDS)}")
    import torch

    if not torch.cuda.is_available():
        sys.exit("kiln bench graphs: PyTorch finds no GPU here")
    print(f"command: {command_line()}")
    print("; ".join(f"{name} {value}" for name, value in machine("cuda").items()), flush=True)
    cases = options.cases or list(CASES)
    children = run(cases, backends, options.turns, options.steps, options.seconds)
    report(children)
    if "calls" in cases:
        replays_from_cpp()
    return int(any(child.once is None for child in children))


if __name__ == "__main__":
    sys.exit(main())
