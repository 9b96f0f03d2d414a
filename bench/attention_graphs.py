"""Graphs of attention as text, forward and backward, for bench/kernel_prices.sh.

usage: python bench/attention_graphs.py FOLDER [CASE...]

CASE is BATCHxHEADSxLENGTHxWIDTH, then `,causal` or `,dropout` where wanted: 4x16x1024x192,dropout.
Without one, cases of all widths. FOLDER gets CASE.ir for each.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

SIZES = ("8x12x1024x64", "8x12x1024x96", "4x16x2048x128", "4x16x1024x192", "2x16x2048x256")
WORDS = ("", ",causal", ",dropout", ",causal,dropout")
USUAL = ["".join(parts) for parts in itertools.product(SIZES, WORDS)]
DROPOUT = 0.1


def graph_of(case: str) -> str:
    sizes, *words = case.split(",")
    unknown = set(words) - {"causal", "dropout"}
    if unknown or sizes.count("x") != 3:
        raise SystemExit(f"attention_graphs: {case}: expected BxHxLxW[,causal][,dropout]")
    batch, heads, length, width = map(int, sizes.split("x"))
    heads_type = f"bf16[{batch}, {heads}, {length}, {width}] align 16"
    strides = [heads * length * width, length * width, width, 1]
    causal = "top_left" if "causal" in words else ""
    dropout = DROPOUT if "dropout" in words else 0.0
    seeds = "%s, %s" if dropout else "none, none"
    numbers = f'"{causal}", 0, {width**-0.5:.8f}, {dropout}'
    return (
        f"graph @attention() on cuda(%q: {heads_type}, %k: {heads_type}, %v: {heads_type}, "
        f"%g: {heads_type}, %s: i64[]) -> (%o, %l, %dq, %dk, %dv) {{\n"
        f"  %o, %l = prims.attention(%q, %k, %v, none, {seeds}, {numbers}, {strides})\n"
        f"  %dq, %dk, %dv = prims.attention_backward(%g, %q, %k, %v, %o, %l, none, {seeds}, "
        f"{numbers}, {strides}, {strides}, {strides})\n}}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", default=USUAL)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for case in options.cases:
        (options.folder / f"{case}.ir").write_text(graph_of(case))


if __name__ == "__main__":
    main()
