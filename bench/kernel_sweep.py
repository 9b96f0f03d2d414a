"""Generated kernels at many sizes: Inductor against Kiln on a GPU.

usage: ./kiln bench kernel_sweep [--points N] [--seed S] [--part I/N] [--json FILE]

A point is a family of sweep_families (all of gpu_kernels, some in further forms), a length that
fits it (of a row, an image's side, a head, a parameter), a number of such rows and a dtype; one in
five has symbolic sizes. A seed always gives the same points. They go through all families again and
again, and no family has a length twice before it has had all of its lengths. The main tensor has 1
to 512 MB. Times are taken as by gpu_kernels: the median of 7 calls after 2 warm-ups. The exit
status is 1 when a result of Kiln is wrong or when Kiln fails at a point.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import math
import os
import random
import re
import sys

from environment import chosen_backends, command_line, machine, require_pattern

BACKENDS = ("inductor", "kiln")
# The shares of points with fixed sizes, with all sizes symbolic (dynamic=True), and with a symbolic
# number of rows (mark_dynamic).
DYNAMIC = {"": 0.8, "all": 0.1, "rows": 0.1}
SLOW = 0.9


@dataclasses.dataclass(frozen=True)
class Point:
    family: str
    length: int  # what the family's sizes were drawn for: of a row, of a side of an image
    sizes: tuple[int, ...]
    dtype: str
    dynamic: str

    @property
    def name(self) -> str:
        symbolic = f", {self.dynamic} symbolic" if self.dynamic else ""
        return f"{self.family} {' x '.join(map(str, self.sizes))} {self.dtype}{symbolic}"


def make_points(count: int, seed: int, families: list[str]) -> list[Point]:
    """The points of a seed. Each round has every family once, with another of its lengths."""
    from sweep_families import SWEEP

    draw = random.Random(seed)
    lengths: dict[tuple[int, ...], list[int]] = {}
    for name in families:
        known = SWEEP[name].lengths
        if known not in lengths:
            lengths[known] = draw.sample(known, len(known))
    points: list[Point] = []
    for shift in itertools.count():
        pairs = []
        for place, name in enumerate(families):
            own = lengths[SWEEP[name].lengths]
            pairs.append((name, own[(place + shift) % len(own)]))
        for name, length in draw.sample(pairs, len(pairs)):
            if len(points) == count:
                return points
            family = SWEEP[name]
            dtype = draw.choice(family.dtypes)
            sizes = family.draw_sizes(draw, length, dtype)
            dynamic = draw.choices(list(DYNAMIC), list(DYNAMIC.values()))[0]
            points.append(Point(name, length, sizes, dtype, dynamic if family.symbolic else ""))


def mark_count(point: Point, inputs: tuple) -> None:
    """Marks the number of rows, wherever the inputs have it."""
    import torch

    from sweep_families import SWEEP

    count = inputs[SWEEP[point.family].counted].shape[0]
    for tensor in inputs:
        for dimension, size in enumerate(tensor.shape):
            if size == count:
                torch._dynamo.maybe_mark_dynamic(tensor, dimension)


def warm_up(backends: list[str], clock, device: str) -> None:
    """Has each backend import what it needs, and keeps all of that out of the collections of
    garbage, which took 0.2 s after each point."""
    import torch

    from kernel_families import Maker
    from kernel_timing import Case, measure_backend
    from sweep_families import sweep_family

    case = Case(sweep_family("softmax", (8, 64), torch.float32), Maker(device))
    for backend in backends:
        measure_backend(case, backend, clock)
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()


def measure_point(point: Point, order: list[str], clock, options) -> dict:
    """A row of figures."""
    import torch

    from kernel_families import Maker
    from kernel_timing import Case, measure_backend
    from sweep_families import sweep_family

    row = {"name": point.name, **dataclasses.asdict(point), "backends": {}}
    family = sweep_family(point.family, point.sizes, getattr(torch, point.dtype))
    try:
        case = Case(family, Maker(options.device, options.tiny))
    except Exception as error:  # out of memory, say; the other points go on
        row["backends"]["kiln"] = {"error": f"its inputs: {error}".splitlines()[0]}
        return row
    if point.dynamic == "rows":
        mark_count(point, case.inputs)
    dynamic = {"": False, "all": True, "rows": None}[point.dynamic]
    for backend in order:
        row["backends"][backend] = measure_backend(case, backend, clock, dynamic)
    return row


def print_row(row: dict) -> None:
    from kernel_timing import cell, milliseconds, notes_of

    theirs, ours = (milliseconds(row["backends"].get(backend)) for backend in BACKENDS)
    size = next((f["bytes"] for f in row["backends"].values() if "bytes" in f), 0)
    print(
        f"{row['name']:72} {size / 1e6:7.0f} {cell(theirs):>8} {cell(ours):>8} "
        f"{cell(theirs / ours, '.2f'):>6}  {'; '.join(notes_of(row))}",
        flush=True,
    )


def print_summary(rows: list[dict]) -> None:
    from kernel_timing import geometric_mean, milliseconds

    ratios = {}
    for row in rows:
        theirs, ours = (milliseconds(row["backends"].get(backend)) for backend in BACKENDS)
        if not math.isnan(theirs / ours):
            ratios[row["name"]] = theirs / ours
    if ratios:
        values = list(ratios.values())
        slow = [ratio for ratio in values if ratio < SLOW]
        print(
            f"Inductor / Kiln: geometric mean {geometric_mean(values):.3f} of {len(values)} points "
            f"({geometric_mean(values, 2.0):.3f} with each capped at 2); "
            f"below {SLOW}: {len(slow)}, {len(slow) / len(values):.1%}"
        )
        for title, chosen in (("by family", "family"), ("rows by length", "length")):
            groups: dict = {}
            for row in rows:
                of_rows = len(row["sizes"]) == 2
                if row["name"] in ratios and (chosen == "family" or of_rows):
                    groups.setdefault(row[chosen], []).append(ratios[row["name"]])
            means = [f"{key} {geometric_mean(groups[key]):.2f}" for key in sorted(groups)]
            print(f"{title}: {', '.join(means)}")
        print("the worst ten:")
        for name in sorted(ratios, key=ratios.get)[:10]:
            print(f"  {ratios[name]:.2f}  {name}")
    for backend in BACKENDS:
        seconds = [row["backends"].get(backend, {}).get("compile_s", 0.0) for row in rows]
        print(f"first calls with their compiles, {backend}: {sum(seconds):.0f} s in all")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=300, help="of the whole sweep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th from the I-th")
    parser.add_argument("--families", default="", metavar="REGEX", help="those whose name matches")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="which to measure")
    parser.add_argument("--repeats", type=int, default=7, help="calls whose median counts")
    parser.add_argument("--json", metavar="FILE", help="write all figures, after each point")
    parser.add_argument("--peer", metavar="FILE", help="Inductor's figures: a --json of before")
    parser.add_argument("--list", action="store_true", help="print the points and end")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for tests")
    options = parser.parse_args()
    part = re.fullmatch(r"(\d+)/(\d+)", options.part)
    if not part or not 1 <= int(part[1]) <= int(part[2]):
        parser.error(f"--part {options.part}: expected I/N with I from 1 to N")
    options.part = (int(part[1]), int(part[2]))
    options.backends = chosen_backends(parser, options.backends, BACKENDS)
    require_pattern(parser, "--families", options.families)
    return options


def main() -> int:
    options = parse()
    command = command_line()
    os.environ.setdefault("KILN_STRICT", "1")  # a graph in eager mode is no figure of Kiln's
    import torch

    from kernel_timing import CpuClock, GpuClock, failures, read_peer, warm_inductor, write_json
    from sweep_families import SWEEP

    families = [name for name in SWEEP if re.search(options.families, name)]
    if not families:
        sys.exit(f"kiln bench kernel_sweep: no family matches {options.families!r}")
    first, parts = options.part
    points = make_points(options.points, options.seed, families)[first - 1 :: parts]
    if options.list:
        print("\n".join(point.name for point in points))
        return 0
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("kiln bench kernel_sweep: PyTorch finds no GPU here")
    if "inductor" in options.backends:
        warm_inductor()
    clock = (GpuClock if options.device == "cuda" else CpuClock)(options.repeats, 2)
    warm_up(options.backends, clock, options.device)
    facts = {"command": command, **machine(options.device)}
    peer = read_peer(options.peer)
    print("; ".join(f"{name} {value}" for name, value in facts.items()))
    print(f"{'point':72} {'MB':>7} {'inductor':>8} {'kiln':>8} {'I/K':>6}", flush=True)
    rows: list[dict] = []
    for number, point in enumerate(points):
        order = options.backends[:: 1 if number % 2 == 0 else -1]
        row = measure_point(point, order, clock, options)
        row["backends"] = {**peer.get(point.name, {}), **row["backends"]}
        rows.append(row)
        print_row(row)
        write_json(options.json, facts, rows)
        clock.release()
    print_summary(rows)
    bad = failures(rows)
    print(f"wrong or failed with Kiln: {', '.join(bad) if bad else 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
