#!/usr/bin/env bash
# Kernels, library calls and bytes moved of each model's graphs for sm_90, against Inductor's count.
#
# Inductor's numbers: tests/corpus/inductor_reference.json. Compiles only; needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT
bazel build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker
[[ $# -gt 0 ]] || set -- tests/corpus/models
# Cases that fail are left out of the table and named below it.
bazel-bin/client/corpus_runner/kiln-corpus "$@" --device cuda-compile --report "$report" >/dev/null || true
python3 bench/kernel_table.py "$report" tests/corpus/inductor_reference.json
