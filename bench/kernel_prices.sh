#!/usr/bin/env bash
# Configurations of generated kernels, timed on a GPU beside the prices that choose among them.
#
# usage: ./kiln bench kernel_prices [--random] [--all] FILE.ir...
#
# Each graph's kernels are built in up to 24 configurations and timed; those of attention, which have no prices, in all.
# Printed: for each kernel what the chosen one takes beside the best, with --all every one. Buffers hold zeros, or with
# --random random bytes, so that sorts have work to do. bench/attention_graphs.py writes graphs of attention. What was
# timed may be set beside other prices without a GPU: tests/bench/kernel_prices --prices-only.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

options=()
while [[ ${1:-} == --* ]]; do
  [[ $1 == --random || $1 == --all ]] || { echo "kernel_prices: $1: expected --random or --all" >&2; exit 2; }
  options+=("$1")
  shift
done
[[ $# -gt 0 ]] || { echo "kernel_prices: expected at least one graph as text, found none" >&2; exit 2; }
bazel build //tests/bench:kernel_prices
python=$(torch_python)
work=$(mktemp -d /tmp/kiln-prices-XXXXXX)
trap 'rm -rf "$work"' EXIT
bazel-bin/tests/bench/kernel_prices --threads="$(nproc)" "$work" "$@"
"$python" bench/kernel_prices.py "$work" "${options[@]}"
