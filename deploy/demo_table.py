"""Prints what `kiln-corpus --report` wrote as a table for people.

usage: demo_table.py REPORT.json [--brief]
"""
import json
import sys


def main() -> int:
    rows = [["CASE", "RESULT", "FROM", "COMPILE", "LOAD", "RUN", "KERNELS", "CALLS", "WORST ERROR"]]
    for case in json.load(open(sys.argv[1])):
        ran = case["run_ms"] > 0
        rows.append([
            case["name"],
            case["verdict"],
            case["served_from"],
            f'{case["compile_ms"]:.0f} ms',
            f'{case["load_ms"]:.1f} ms' if ran else "-",
            f'{case["run_ms"]:.2f} ms' if ran else "-",
            str(case.get("kernels", "-")),
            str(case.get("externs", "-")),
            f'{case["worst_ratio"]:.2g} of tolerance' if ran else case["detail"][:90],
        ])
    if "--brief" in sys.argv:
        rows = [row[:5] for row in rows]
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
