#!/usr/bin/env bash
# A cache hit that comes from Redis on loopback, against one that is near; near hits with Redis stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:far_hit_bench //server:kilnd //compiler:kiln-worker
exec bazel-bin/tests/bench/far_hit_bench --kilnd="$PWD/bazel-bin/server/kilnd" \
  --worker="$PWD/bazel-bin/compiler/kiln-worker" "$@"
