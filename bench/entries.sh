#!/usr/bin/env bash
# A cache of a million entries: time from exec to SERVING, and memory an entry.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:entries_bench //server:kilnd //tests/support:fake_worker
exec bazel-bin/tests/bench/entries_bench --kilnd="$PWD/bazel-bin/server/kilnd" \
  --worker="$PWD/bazel-bin/tests/support/fake_worker" --folder="$PWD/build/entries" "$@"
