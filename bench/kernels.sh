#!/usr/bin/env bash
# Kernels, library calls and bytes moved of each model's graphs for sm_90, against Inductor's count (bars: 1.0 in all, 1.25 each).
#
# Inductor's numbers: tests/corpus/inductor_reference.json. Compiles only; needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/run_corpus.bash

[[ $# -gt 0 ]] || set -- tests/corpus/models
# Cases that fail are left out of the table and named below it.
run_corpus "$@" --device cuda-compile >/dev/null || true
python3 bench/kernel_table.py "$report" tests/corpus/inductor_reference.json
