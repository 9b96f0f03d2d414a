#!/usr/bin/env bash
# Ten thousand callers that wait for one compile: answers, time and memory.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:waiters_bench //server:kilnd //tests/support:fake_worker
exec bazel-bin/tests/bench/waiters_bench --kilnd="$PWD/bazel-bin/server/kilnd" \
  --worker="$PWD/bazel-bin/tests/support/fake_worker" "$@"
