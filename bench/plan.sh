#!/usr/bin/env bash
# Graph to kernel sources and plan on one thread: full/gpt2_train_bf16, forward and backward (bar: 100 ms).
set -euo pipefail
cd "$(dirname "$0")/.."

bazel build //tests/bench:plan_bench
[[ $# -gt 0 ]] || set -- tests/corpus/full/gpt2_train_bf16.jsonl.zst
table=$(bazel-bin/tests/bench/plan_bench "$@")
echo "$table"
# Medians of nine runs. On a loaded machine the processor time is the truer figure.
ms=$(awk '/^graph to sources and plan/ {print $6}' <<<"$table")
python3 bench/figures.py ratio "graph to sources and plan" "$ms" "bar" 100 ms
python3 bench/figures.py peer "graph to sources and plan" "$(awk -v ms="$ms" 'BEGIN {print ms / 1e3}')"
