#!/usr/bin/env bash
# Graph to kernel sources and plan on one thread: full/gpt2_train_bf16, forward and backward (bar: 100 ms).
set -euo pipefail
cd "$(dirname "$0")/.."

bazel build //tests/bench:plan_bench
[[ $# -gt 0 ]] || set -- tests/corpus/full/gpt2_train_bf16.jsonl.zst
exec bazel-bin/tests/bench/plan_bench "$@"
