#!/usr/bin/env bash
# The kernels planned for CUDA compute what PyTorch computed, model by model: they are interpreted, which needs no GPU.
#
# usage: model_plans_test.sh KERNEL_COUNTS_MAIN AT_LEAST PATH...     AT_LEAST: how many cases must be there
set -euo pipefail
program=$1 due=$2
shift 2

out=$TEST_TMPDIR/out.txt
"$program" --run --target sm_90 "$@" >"$out" || { grep -vE 'launches [ 0-9]+\([^)]*\)( MORE)? externs [^W]*$' "$out"; exit 1; }
found=$(grep -c ' launches ' "$out")
[[ $found -ge $due ]] || { echo "$found cases were planned, due $due" >&2; exit 1; }
