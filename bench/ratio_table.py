"""Prints compile and step time a case, Kiln against Inductor, as ratios.

usage: ratio_table.py KILN_REPORT.json INDUCTOR.jsonl
"""
import json
import sys


def main() -> int:
    kiln = {case["name"]: case for case in json.load(open(sys.argv[1]))}
    peer = {row["case"]: row for row in map(json.loads, open(sys.argv[2]))}
    print(f'{"CASE":36}{"KILN s":>9}{"INDUCTOR s":>12}{"FASTER":>8}'
          f'{"STEP ms":>10}{"INDUCTOR ms":>13}{"RATIO":>7}')
    sums = [0.0, 0.0, 0.0, 0.0]
    for name in sorted(kiln.keys() & peer.keys()):
        ours, theirs = kiln[name], peer[name]
        if ours["verdict"] != "ok" or "compile_s" not in theirs:
            print(f'{name:36} not compared: {ours["verdict"]} {theirs.get("error", "")}')
            continue
        row = [(ours["compile_ms"] + ours["load_ms"]) / 1e3, theirs["compile_s"],
               ours["run_ms"], theirs["run_us"] / 1e3]
        sums = [a + b for a, b in zip(sums, row)]
        print_row(name, row)
    print_row("total", sums)
    return 0


def print_row(name: str, row: list) -> None:
    faster = row[1] / row[0] if row[0] else 0.0
    ratio = row[2] / row[3] if row[3] else 0.0
    print(f"{name:36}{row[0]:9.2f}{row[1]:12.2f}{faster:7.1f}x{row[2]:10.3f}{row[3]:13.3f}{ratio:7.2f}")


if __name__ == "__main__":
    sys.exit(main())
