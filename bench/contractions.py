"""Products, attention and convolutions: Kiln beside the best of PyTorch, in one process.

usage: ./kiln bench contractions [GROUP...] [--cases REGEX] [--json FILE] [--profile]

  products      40 shapes in bf16, f16, TF32 and f32, beside eager mode
  odd           16 with sizes off a multiple of 8, beside Inductor
  attention     19 cases, forward and forward + backward, beside the fastest of PyTorch's backends
  convolutions  of four networks, by inputs of both layouts; weights are channels-last, and so are
                eager mode's results, which it is beside

A figure is the GPU time of one whole call, as in gpu_kernels: the L2 cache is emptied before it,
and the host's time hidden. Peers and Kiln are measured one after another in each turn; the figure
is the median of the turns. A ratio is the peer's time over Kiln's: above 1 Kiln is faster. Results
are compared with float64; "error" is Kiln's over that of the fastest peer, of the worst result. The
exit status is 1 when a result of Kiln is wrong or when Kiln fails. --profile lists the kernels of a
case below its bar.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys

from environment import command_line, machine, require_pattern

GROUPS = ("products", "odd", "attention", "convolutions")
# {group: (of the mean ratio, of each)}
BARS = {
    "products": (1.0, 0.97),
    "odd": (1.05, 0.95),
    "attention": (0.0, 0.95),
    "convolutions": (1.0, 0.95),
}
ERROR_BAR = 1.2  # of attention


def notes_of(row: dict) -> list[str]:
    notes = [] if row.get("ratio", 1.0) >= BARS[row["group"]][1] else ["BELOW"]
    ours = row["backends"]["kiln"]
    if row["group"] == "attention" and row.get("error", 0.0) > ERROR_BAR:
        notes.append("LESS EXACT")
    notes += [f"kiln: {ours['error']}"] if ours.get("error") else []
    notes += [f"WRONG: {ours['wrong']}"] if ours.get("wrong") else []
    notes += [f"{ours['host_kernels']} host kernels"] if ours.get("host_kernels") else []
    if "best" not in row:
        notes += [f"{b}: {f['error']}" for b, f in row["backends"].items() if b != "kiln"]
    return notes


def print_row(row: dict) -> None:
    from kernel_timing import cell, milliseconds

    best = row.get("best", "")
    theirs, ours = (milliseconds(row["backends"].get(b)) for b in (best, "kiln"))
    print(
        f"{row['name']:52} {best:9} {cell(theirs, '8.4f')} {cell(ours, '8.4f')} "
        f"{cell(row.get('ratio', math.nan), '5.2f')} {cell(row.get('error', math.nan), '5.2f')}  "
        f"{'; '.join(notes_of(row))}",
        flush=True,
    )
    for backend in ("kiln", best):
        for kernel in row["backends"].get(backend, {}).get("kernels", ()):
            name = kernel["name"][:100]
            print(f"    {backend:9} {kernel['us']:8.1f} us {kernel['count']:4.1f} x {name}")


def print_summary(group: str, rows: list[dict]) -> None:
    from kernel_timing import cell, geometric_mean

    mean_bar, each_bar = BARS[group]
    timed = [row for row in rows if "ratio" in row]
    ratios = [row["ratio"] for row in timed]
    lowest = min(timed, key=lambda row: row["ratio"], default={"name": "-", "ratio": math.nan})
    bar = f"bar {mean_bar}" if mean_bar else "no bar"
    print(
        f"{group}: geometric mean {cell(geometric_mean(ratios))} ({bar}) of {len(timed)} of "
        f"{len(rows)}; lowest {cell(lowest['ratio'])}, {lowest['name']} (bar {each_bar}); "
        f"below it: {sum(ratio < each_bar for ratio in ratios)}"
    )
    exact = [row["error"] for row in timed if not math.isnan(row["error"])]
    if group == "attention" and exact:
        above = sum(error > ERROR_BAR for error in exact)
        most = f"{max(exact):.2f} (bar {ERROR_BAR})"
        print(f"{group}: error / best's at most {most}; above it: {above}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=" ".join(GROUPS))
    parser.add_argument("--cases", default="", metavar="REGEX", help="those whose name matches")
    parser.add_argument("--repeats", type=int, default=15, help="calls whose median counts")
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each case")
    parser.add_argument("--profile", action="store_true", help="kernels of what is below its bar")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for tests")
    options = parser.parse_args()
    for group in options.groups:
        if group not in GROUPS:
            parser.error(f"there is no group {group}; there are {', '.join(GROUPS)}")
    if options.profile and options.device == "cpu":
        parser.error("--profile needs a GPU")
    require_pattern(parser, "--cases", options.cases)
    return options


def main() -> int:
    options = parse()
    command = command_line()
    os.environ.setdefault("KILN_STRICT", "1")  # a graph in eager mode is no figure of Kiln's
    import torch

    from contraction_cases import CONTRACTIONS
    from contraction_timing import measure
    from kernel_families import Maker
    from kernel_timing import CpuClock, GpuClock, failures, warm_inductor, write_json

    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("kiln bench contractions: PyTorch finds no GPU here")
    clock = (GpuClock if options.device == "cuda" else CpuClock)(options.repeats)
    maker = Maker(options.device, options.tiny)
    facts = {"command": command, **machine(options.device)}
    print("; ".join(f"{name} {value}" for name, value in facts.items()))
    groups = options.groups or GROUPS
    if "odd" in groups:
        warm_inductor()
    print(f"{'case':52} {'best':9} {'best ms':>8} {'kiln ms':>8} ratio error", flush=True)
    rows: list[dict] = []
    for contraction in CONTRACTIONS:
        if contraction.group not in groups or not re.search(options.cases, contraction.name):
            continue
        below = BARS[contraction.group][1] if options.profile else 0.0
        rows.append(measure(contraction, maker, clock, below))
        print_row(rows[-1])
        write_json(options.json, facts, rows)
        clock.release()
    for group in groups:
        print_summary(group, [row for row in rows if row["group"] == group])
    bad = failures(rows)
    print(f"wrong or failed with Kiln: {', '.join(bad) if bad else 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
