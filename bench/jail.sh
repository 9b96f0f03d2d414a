#!/usr/bin/env bash
# What the workers' jail costs the compile of a unit, and with the signature that of a graph, at each level (bar: 1.03).
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:jail_bench //compiler:kiln-worker
exec bazel-bin/tests/bench/jail_bench "$PWD/bazel-bin/compiler/kiln-worker" "${1:-tests/corpus/models/gpt2_train.jsonl}"
