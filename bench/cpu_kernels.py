"""Generated kernels on the CPU: 21 families in float32, Inductor's C++ and Kiln in turns.

usage: ./kiln bench cpu_kernels [--families REGEX] [--backends eager,inductor,kiln] [--json FILE]

A figure is the wall time of a whole compiled call in milliseconds on two threads: the median of 15
calls after 4 warm-ups. Within a family the backends are called in turns, so that other work on the
machine slows all of them alike. A "fwd+bwd" family runs the forward and torch.autograd.grad with a
fixed gradient; in a "bwd" family the forward is not timed.

I/K is Inductor's time over Kiln's: above 1 Kiln is faster. The results of both are compared with
eager mode's in float64. The exit status is 1 when a result of Kiln is wrong or when Kiln fails on a
family.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys

from environment import chosen_backends, command_line, machine, require_pattern

BACKENDS = ("eager", "inductor", "kiln")
CAP = 3.0


def measure_family(family, order: list[str], clock, tiny: bool) -> dict:
    """A row: the figures of each backend, whose calls are timed in turns."""
    import torch

    from kernel_families import Maker
    from kernel_timing import Case, compiled, try_backend, words_of

    torch._dynamo.reset()
    row: dict = {"name": family.name, "backends": {}}
    case = Case(family, Maker("cpu", tiny))
    calls = {}
    for backend in order:
        called = compiled(family.function, backend)
        try:
            row["backends"][backend] = try_backend(case, called, backend, clock)
        except Exception as error:  # whatever it is, the other families go on
            row["backends"][backend] = {"error": words_of(error)}
            continue
        calls[backend] = (
            lambda called=called: case.prepare(called),
            lambda state, called=called: case.run(called, state),
        )
    for backend, ms in clock.measure_in_turns(calls).items():
        row["backends"][backend]["ms"] = ms
    return row


def ratio(row: dict) -> float:
    """Inductor / Kiln; NaN where one is missing."""
    from kernel_timing import milliseconds

    theirs, ours = (milliseconds(row["backends"].get(b)) for b in ("inductor", "kiln"))
    return theirs / ours


def print_row(row: dict) -> None:
    from kernel_timing import cell, milliseconds, notes_of

    times = " ".join(f"{cell(milliseconds(row['backends'].get(b)), '.2f'):>9}" for b in BACKENDS)
    notes = "; ".join(notes_of(row))
    print(f"{row['name']:30} {times} {cell(ratio(row), '.2f'):>6}  {notes}", flush=True)


def print_summary(rows: list[dict]) -> None:
    from kernel_timing import cell, failures, geometric_mean

    found = [ratio(row) for row in rows if not math.isnan(ratio(row))]
    slow = sum(value < 0.95 for value in found)
    print(
        f"Inductor / Kiln: geometric mean {cell(geometric_mean(found, CAP), '.3f')} of "
        f"{len(found)} families, each capped at {CAP:.0f}; below 0.95: {slow}"
    )
    for backend in BACKENDS[1:]:
        seconds = [row["backends"].get(backend, {}).get("compile_s", 0.0) for row in rows]
        print(f"first calls with their compiles, {backend}: {sum(seconds):.0f} s in all")
    bad = failures(rows)
    print(f"wrong or failed with Kiln: {', '.join(bad) if bad else 'none'}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default="", metavar="REGEX", help="those whose name matches")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="which to measure")
    parser.add_argument("--repeats", type=int, default=15, help="calls whose median counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each family")
    parser.add_argument(
        "--peer", metavar="FILE", help="eager mode's and Inductor's figures: a --json of before"
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, for tests")
    options = parser.parse_args()
    options.backends = chosen_backends(parser, options.backends, BACKENDS)
    require_pattern(parser, "--families", options.families)
    return options


def main() -> int:
    options = parse()
    command = command_line()
    os.environ.setdefault("KILN_STRICT", "1")  # a graph in eager mode is no figure of Kiln's
    import torch

    from kernel_families import CPU
    from kernel_timing import CpuClock, failures, read_peer, write_json

    torch.set_num_threads(options.threads)
    clock = CpuClock(options.repeats)
    facts = {"command": command, **machine("cpu")}
    peer = read_peer(options.peer)
    print("; ".join(f"{name} {value}" for name, value in facts.items()))
    print(f"{'family':30} {'eager':>9} {'inductor':>9} {'kiln':>9} {'I/K':>6}", flush=True)
    rows: list[dict] = []
    for family in [family for family in CPU if re.search(options.families, family.name)]:
        row = measure_family(family, options.backends, clock, options.tiny)
        row["backends"] = {**peer.get(family.name, {}), **row["backends"]}
        rows.append(row)
        print_row(row)
        write_json(options.json, facts, rows)
        clock.release()
    print_summary(rows)
    return 1 if failures(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
