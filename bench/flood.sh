#!/usr/bin/env bash
# Lookups of a thousand clients, alone and beside a flood of compiles that nobody waits for.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:flood_bench //server:kilnd //compiler:kiln-worker
exec bazel-bin/tests/bench/flood_bench --kilnd="$PWD/bazel-bin/server/kilnd" \
  --worker="$PWD/bazel-bin/compiler/kiln-worker" "$@"
