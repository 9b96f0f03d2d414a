#!/usr/bin/env bash
# Calls a second of a cache hit over gRPC, against a bare gRPC echo of the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:cache_hit_bench //server:kilnd //compiler:kiln-worker
exec bazel-bin/tests/bench/cache_hit_bench --kilnd="$PWD/bazel-bin/server/kilnd" \
  --worker="$PWD/bazel-bin/compiler/kiln-worker" "$@"
