#!/usr/bin/env bash
# Arena bytes of each model's plan against the most bytes live at once (1.00: a perfect packing).
set -euo pipefail
cd "$(dirname "$0")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT
bazel build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker
[[ $# -gt 0 ]] || set -- tests/corpus/models
bazel-bin/client/corpus_runner/kiln-corpus "$@" --device cuda-compile --report "$report" >/dev/null || true
python3 - "$report" <<'P'
import json, sys
print(f'{"CASE":44}{"ARENA":>12}{"PEAK LIVE":>12}{"RATIO":>7}')
for case in json.load(open(sys.argv[1])):
    if case.get("peak_live_bytes"):
        arena, peak = case["arena_bytes"], case["peak_live_bytes"]
        print(f'{case["name"]:44}{arena:12}{peak:12}{arena / peak:7.2f}')
P
