#!/usr/bin/env bash
# Generated kernels of the corpus that spill registers, by ptxas for sm_90 (bar: no pointwise and no row kernel). No GPU needed.
set -euo pipefail
cd "$(dirname "$0")/.."

bazel build //tests/bench:kernel_registers
[[ $# -gt 0 ]] || set -- tests/corpus/full/*.jsonl.zst tests/corpus/models/*.jsonl* tests/corpus/ops/*.jsonl*
bazel-bin/tests/bench/kernel_registers "$@"
