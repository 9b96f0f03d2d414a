#!/usr/bin/env bash
# Cache hits a second against an echo of as many raw bytes: Unix socket, and TCP with certificates.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:cache_hit_bench //server:kilnd //compiler:kiln-worker
exec bazel-bin/tests/bench/cache_hit_bench --kilnd="$PWD/bazel-bin/server/kilnd" \
  --worker="$PWD/bazel-bin/compiler/kiln-worker" "$@"
