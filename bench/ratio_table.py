"""Prints compile and step time of each model, Kiln against Inductor, as ratios.

usage: ratio_table.py KILN_REPORT.json INDUCTOR.jsonl

A model's graphs, forward and backward, stand together. A second size of a dynamic model ("@1") is left out: Kiln compiles
nothing for it.
"""
import json
import sys
from collections import defaultdict


def main() -> int:
    kiln = {case["name"]: case for case in json.load(open(sys.argv[1]))}
    peer = {row["case"]: row for row in map(json.loads, open(sys.argv[2]))}
    models = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    missing = []
    for name in sorted(kiln.keys() & peer.keys()):
        ours, theirs = kiln[name], peer[name]
        if "@" in name:
            continue
        if ours["verdict"] != "ok" or "compile_s" not in theirs:
            missing.append(f'{name}: Kiln {ours["verdict"]}, Inductor {theirs.get("error", "ok")}')
            continue
        row = [1, (ours["compile_ms"] + ours["load_ms"]) / 1e3, theirs["compile_s"],
               ours["run_ms"], theirs["run_us"] / 1e3]
        model = name.rsplit(".", 1)[0]
        models[model] = [a + b for a, b in zip(models[model], row)]
    print(f'{"MODEL":30}{"GRAPHS":>7}{"KILN s":>9}{"INDUCTOR s":>12}{"FASTER":>8}'
          f'{"STEP ms":>10}{"INDUCTOR ms":>13}{"RATIO":>7}')
    for model in sorted(models):
        print_row(model, models[model])
    print_row("total", [sum(row[i] for row in models.values()) for i in range(5)])
    for line in missing:
        print("not compared:", line)
    return 0


def print_row(name: str, row: list) -> None:
    graphs, ours, theirs, step, their_step = row
    faster = theirs / ours if ours else 0.0
    ratio = step / their_step if their_step else 0.0
    print(f"{name:30}{graphs:7}{ours:9.2f}{theirs:12.2f}{faster:7.1f}x{step:10.3f}{their_step:13.3f}{ratio:7.2f}",
          flush=True)


if __name__ == "__main__":
    sys.exit(main())
