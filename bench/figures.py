"""Prints figures of a report of `kiln-corpus --report`, each against its peer or its bar.

usage: figures.py arena|first_call|cubins REPORT.json
       figures.py ratio NAME VALUE PEER_NAME PEER_VALUE UNIT      one line, of numbers that a script has
       figures.py peer NAME SECONDS                               the same, against Inductor

A ratio below 1 is in Kiln's favour. Peers that cannot run here are in peer_figures.json, with where they come from.
"""
import json
import os
import sys


def ratio_line(name: str, value: float, peer_name: str, peer: float, unit: str) -> str:
    ratio = value / peer
    return f"{name}: {value:.4g} {unit} / {peer_name}: {peer:.4g} {unit} = {ratio:.3g}"


def arena(cases: list) -> None:
    # A dynamic graph at its hints' classes: what the compiler packed for.
    print(f'{"CASE":44}{"ARENA":>12}{"PEAK LIVE":>12}{"RATIO":>7}')
    rows = [case for case in cases if case.get("peak_live_bytes") and "@" not in case["name"]]
    for case in rows:
        size, peak = case["planned_arena_bytes"], case["peak_live_bytes"]
        print(f'{case["name"]:44}{size:12}{peak:12}{size / peak:7.2f}')
    worst = max(rows, key=lambda case: case["planned_arena_bytes"] / case["peak_live_bytes"])
    print(ratio_line(f'worst of {len(rows)} plans, {worst["name"]}', worst["planned_arena_bytes"],
                     "most bytes live at once", worst["peak_live_bytes"], "bytes") + ", bar 1.10")


def first_call(cases: list) -> None:
    print(f'{"CASE":24}{"LOAD ms":>9}{"FIRST ms":>10}{"LATER ms":>10}{"LOAD+FIRST-LATER ms":>21}{"/ BAR OF 10 ms":>16}')
    for case in cases:
        load, first, later = case["load_ms"], case["first_run_ms"], case["run_ms"]
        took = load + first - later
        print(f'{case["name"]:24}{load:9.2f}{first:10.2f}{later:10.2f}{took:21.2f}{took / 10:16.2f}')


def cubins(cases: list) -> None:
    print(f'{"CASE":32}{"COMPILE ms":>12}')
    for case in cases:
        print(f'{case["name"]:32}{case["compile_ms"]:12.0f}')
    seconds = sum(case["compile_ms"] for case in cases) / 1e3
    print(f'{"in all, one after another":32}{1e3 * seconds:12.0f}')
    print_peer("to all cubins", seconds)


def print_peer(name: str, seconds: float) -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "peer_figures.json"), encoding="utf-8") as file:
        peer = json.load(file)["gpt2_train_bf16"]
    print(ratio_line(name, seconds, "Inductor", peer["seconds"], "s"))
    print(f'  not in this run: {peer["what"]}; {peer["source"]}')


def main() -> int:
    if sys.argv[1] == "ratio":
        name, value, peer_name, peer, unit = sys.argv[2:7]
        print(ratio_line(name, float(value), peer_name, float(peer), unit))
        return 0
    if sys.argv[1] == "peer":
        print_peer(sys.argv[2], float(sys.argv[3]))
        return 0
    with open(sys.argv[2], encoding="utf-8") as file:
        cases = json.load(file)
    {"arena": arena, "first_call": first_call, "cubins": cubins}[sys.argv[1]](cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
