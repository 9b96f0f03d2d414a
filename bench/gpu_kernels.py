"""Generated kernels on a GPU: 39 families, eager mode, Inductor and Kiln in one process.

usage: ./kiln bench gpu_kernels [--families REGEX] [--backends eager,inductor,kiln] [--json FILE]

A figure is the GPU time of one whole compiled call in milliseconds: CUDA events around the call,
the L2 cache emptied before it, the host's time hidden behind a kernel that sleeps on the device;
the median of 15 calls after 4 warm-ups. A "fwd+bwd" family runs the forward and torch.autograd.grad
with a fixed gradient; in a "bwd" family the forward is not timed. Which backend is measured first
alternates from family to family.

I/K is Inductor's time over Kiln's: above 1 Kiln is faster. best/K is the same for the faster of
eager mode and Inductor. "share" compares Kiln's bandwidth with a copy's: the bytes of the graph's
inputs and outputs over its time, less the time of an empty kernel. Results of Inductor and Kiln are
compared with eager mode's in float64. The exit status is 1 when a result of Kiln is wrong or when
Kiln fails on a family.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import sys

from environment import chosen_backends, command_line, machine, require_pattern

BACKENDS = ("eager", "inductor", "kiln")
# Of a family's bytes, from which on its share of a copy counts in the summary.
LARGE = 256e6
CAP = 2.0


def measure_family(family, order, peer: dict, clock, options) -> dict:
    """A row: the figures of each backend in `order`, beside those that the peer's file has."""
    from kernel_families import Maker
    from kernel_timing import Case, measure_backend

    row = {"name": family.name, "irregular": family.irregular, "backends": dict(peer)}
    try:
        case = Case(family, Maker(options.device, options.tiny))
    except Exception as error:  # out of memory, say; the other families go on
        row["backends"]["kiln"] = {"error": f"its inputs: {error}".splitlines()[0]}
        return row
    for backend in order:
        profile = options.profile and backend == "kiln"
        row["backends"][backend] = measure_backend(case, backend, clock, False, profile)
    return row


def add_shares(row: dict, facts: dict) -> None:
    """Kiln's share of the bandwidth of a copy, where that is known."""
    ours = row["backends"].get("kiln", {})
    row["bytes"] = next((f["bytes"] for f in row["backends"].values() if "bytes" in f), 0)
    if "ms" in ours and "copy_bytes_per_ms" in facts:
        net = max(ours["ms"] - facts["empty_ms"], 1e-6)
        row["share"] = row["bytes"] / net / facts["copy_bytes_per_ms"]


def ratios(row: dict) -> tuple[float, float]:
    """Inductor / Kiln and min(eager, Inductor) / Kiln; NaN where one is missing."""
    from kernel_timing import milliseconds

    eager, inductor, kiln = (milliseconds(row["backends"].get(b)) for b in BACKENDS)
    best = min((ms for ms in (eager, inductor) if not math.isnan(ms)), default=math.nan)
    return inductor / kiln, best / kiln


def print_row(row: dict) -> None:
    from kernel_timing import cell, milliseconds, notes_of

    times = " ".join(f"{cell(milliseconds(row['backends'].get(b))):>8}" for b in BACKENDS)
    faster, best = ratios(row)
    shares = f"{cell(best, '.2f'):>6} {cell(row.get('share', math.nan), '.2f'):>6}"
    print(
        f"{row['name']:43} {row['bytes'] / 1e6:7.0f} {times} {cell(faster, '.2f'):>6} {shares}  "
        f"{'; '.join(notes_of(row))}",
        flush=True,
    )
    for kernel in row["backends"].get("kiln", {}).get("kernels", ()):
        print(f"    {kernel['us']:9.1f} us {kernel['count']:5.1f} x {kernel['name'][:110]}")


def print_summary(rows: list[dict]) -> None:
    from kernel_timing import cell, failures, geometric_mean

    both = [ratios(row) for row in rows]
    faster = [pair[0] for pair in both if not math.isnan(pair[0])]
    best = [pair[1] for pair in both if not math.isnan(pair[1])]
    large = [r for r in rows if "share" in r and r["bytes"] >= LARGE and not r["irregular"]]
    for title, means in (("Inductor / Kiln", faster), ("min(eager, Inductor) / Kiln", best)):
        print(
            f"{title}: geometric mean {cell(geometric_mean(means, CAP), '.3f')} of {len(means)} "
            f"families, each capped at {CAP:.0f}; below 0.95: {sum(r < 0.95 for r in means)}"
        )
    if large:
        worst = min(large, key=lambda row: row["share"])
        mean = statistics.fmean(row["share"] for row in large)
        print(
            f"share of the copy's bandwidth, {len(large)} families of 256 MB or more without scans,"
            f" sorts and scatters: mean {mean:.3f}, lowest {worst['share']:.3f} ({worst['name']})"
        )
    bad = failures(rows)
    print(f"wrong or failed with Kiln: {', '.join(bad) if bad else 'none'}")


def print_compile_times(rows: list[dict]) -> None:
    """A line: the seconds of each family's first call, Inductor / Kiln."""
    parts, sums = [], dict.fromkeys(("inductor", "kiln"), 0.0)
    for row in rows:
        taken = {b: row["backends"].get(b, {}).get("compile_s") for b in sums}
        for backend, seconds in taken.items():
            sums[backend] += seconds or 0.0
        texts = ["-" if s is None else f"{s:.1f}" for s in taken.values()]
        if any(taken.values()):
            parts.append(f"{row['name']} {'/'.join(texts)}")
    if not parts:
        return
    totals = "/".join(f"{seconds:.0f}" for seconds in sums.values())
    print(f"seconds of the first call, Inductor/Kiln: in all {totals}; {', '.join(parts)}")


def selected(pattern: str) -> list:
    from kernel_families import GPU

    return [family for family in GPU if re.search(pattern, family.name)]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default="", metavar="REGEX", help="those whose name matches")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="which to measure")
    parser.add_argument("--repeats", type=int, default=15, help="calls whose median counts")
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each family")
    parser.add_argument(
        "--peer", metavar="FILE", help="eager mode's and Inductor's figures: a --json of before"
    )
    parser.add_argument("--profile", action="store_true", help="list the kernels of Kiln's call")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for tests")
    options = parser.parse_args()
    options.backends = chosen_backends(parser, options.backends, BACKENDS)
    if options.profile and options.device == "cpu":
        parser.error("--profile needs a GPU")
    require_pattern(parser, "--families", options.families)
    return options


def main() -> int:
    options = parse()
    command = command_line()
    os.environ.setdefault("KILN_STRICT", "1")  # a graph in eager mode is no figure of Kiln's
    import torch

    from kernel_timing import CpuClock, GpuClock, failures, read_peer, warm_inductor, write_json

    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("kiln bench gpu_kernels: PyTorch finds no GPU here")
    clock = (GpuClock if options.device == "cuda" else CpuClock)(options.repeats)
    facts = {"command": command, **machine(options.device)}
    if options.device == "cuda":
        facts["empty_ms"] = clock.empty_kernel_ms()
        facts["copy_bytes_per_ms"] = clock.copy_bandwidth()
    peer = read_peer(options.peer)
    if "inductor" in options.backends:
        warm_inductor()
    print("; ".join(f"{name} {value}" for name, value in facts.items() if "ms" not in name))
    if options.device == "cuda":
        copied = facts["copy_bytes_per_ms"] / 1e6
        print(f"empty kernel {1e3 * facts['empty_ms']:.1f} us, copy {copied:.0f} GB/s")
    print(f"{'family':43} {'MB':>7} {'eager':>8} {'inductor':>8} {'kiln':>8} {'I/K':>6} ", end="")
    print(f"{'best/K':>6} {'share':>6}", flush=True)
    rows: list[dict] = []
    for number, family in enumerate(selected(options.families)):
        order = options.backends[:: 1 if number % 2 == 0 else -1]
        row = measure_family(family, order, peer.get(family.name, {}), clock, options)
        add_shares(row, facts)
        rows.append(row)
        print_row(row)
        write_json(options.json, facts, rows)
        clock.release()
    print_summary(rows)
    print_compile_times(rows)
    return 1 if failures(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
