#!/usr/bin/env bash
# Hits alone and while jobs of the poison set fail beside them (bar: p99 at most 1.2 times).
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:poison_bench //server:kilnd //tests/support:fake_worker //tests/support:lying_planner
exec bazel-bin/tests/bench/poison_bench --kilnd="$PWD/bazel-bin/server/kilnd" \
  --fake="$PWD/bazel-bin/tests/support/fake_worker" \
  --planner="$PWD/bazel-bin/tests/support/lying_planner" "$@"
