"""Prints what `kiln-corpus --report` wrote as a table for people, then what it comes to in a line.

usage: demo_table.py REPORT.json
"""
import json
import signal
import sys

FROM = {"compile": "compiled", "joined": "joined", "cache": "cache", "local_worker": "own worker"}


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends without a word when the demo is stopped
    cases = json.load(open(sys.argv[1]))
    ran = any(case["run_ms"] > 0 for case in cases)
    rows = [["CASE", "RESULT", "FROM", "IN", "KERNELS", "CALLS"]]
    if ran:
        rows[0] += ["LOAD", "RUN", "WORST ERROR", "TOLERANCE"]
    for case in cases:
        rows.append([
            case["name"],
            case["verdict"],
            FROM.get(case["served_from"], "-"),
            f'{case["compile_ms"]:.0f} ms',
            str(case.get("kernels", "-")),
            str(case.get("externs", "-")),
        ])
        if case["run_ms"] > 0:
            rows[-1] += [
                f'{case["load_ms"]:.1f} ms',
                f'{case["run_ms"]:.2f} ms',
                f'{case["worst_error"]:.1e}' if case["worst_ratio"] > 0 else "exact",
                f'{case["worst_allowed"]:.1e}' if case["worst_ratio"] > 0 else "",
            ]
        elif case["verdict"] != "compiled":
            rows[-1] += [case["detail"][:90]]
    width = max(len(row) for row in rows)
    rows = [row + [""] * (width - len(row)) for row in rows]
    widths = [max(len(row[c]) for row in rows) for c in range(width)]
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip())
    print(summary(cases, ran))
    return 0


def summary(cases: list, ran: bool) -> str:
    served = [case["served_from"] for case in cases]
    good = sum(case["verdict"] == ("ok" if ran else "compiled") for case in cases)
    text = (f"{good} of {len(cases)} graphs {'right' if ran else 'built'}: "
            f"{served.count('compile') + served.count('joined')} compiled now, "
            f"{served.count('cache')} from the cache")
    if ran:
        worst = max(cases, key=lambda case: case["worst_ratio"])
        text += f'; the worst error is {worst["worst_ratio"]:.2g} of its tolerance, in {worst["name"]}'
    return text


if __name__ == "__main__":
    sys.exit(main())
