"""Prints kernels a graph, Kiln against Inductor.

usage: kernel_table.py REPORT.json INDUCTOR_REFERENCE.json

REPORT is what `kiln-corpus --report` wrote. A launch is a generated kernel, a copy or a fill;
Inductor's `kernels` counts the same. The two of a model, forward and backward, stand together.
"""
import json
import sys
from collections import defaultdict


def main() -> int:
    report = json.load(open(sys.argv[1]))
    reference = json.load(open(sys.argv[2]))
    models = defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    missing = []
    for case in report:
        name = case["name"]
        if "@" in name or name not in reference:
            continue
        if "kernels" not in case:
            missing.append(f'{name}: {case["verdict"]} {case["detail"]}'.replace("\n", " | "))
            continue
        row = models[name.rsplit(".", 1)[0]]
        row[0] += case["kernels"] + case["copies"] + case["fills"]
        row[1] += reference[name]["kernels"]
        row[2] += case["externs"]
        row[3] += reference[name]["extern_calls"]
        row[4] += case["bytes_moved"]
        row[5] += case["arena_bytes"]
    print(f'{"MODEL":34}{"LAUNCHES":>9}{"INDUCTOR":>10}{"RATIO":>7}{"EXTERNS":>9}{"INDUCTOR":>10}'
          f'{"KB MOVED":>11}{"KB ARENA":>10}')
    total = [0] * 6
    for model in sorted(models):
        row = models[model]
        total = [a + b for a, b in zip(total, row)]
        print_row(model, row)
    print_row("total", total)
    for line in missing:
        print("not counted:", line)
    return 0


def print_row(name: str, row: list) -> None:
    ratio = row[0] / row[1] if row[1] else 0.0
    print(f"{name:34}{row[0]:9}{row[1]:10}{ratio:7.2f}{row[2]:9}{row[3]:10}"
          f"{row[4] / 1e3:11.1f}{row[5] / 1e3:10.1f}")


if __name__ == "__main__":
    sys.exit(main())
