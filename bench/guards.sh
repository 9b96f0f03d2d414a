#!/usr/bin/env bash
# Nanoseconds that the guard table takes to pick the executor of a call, a guard and in all.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:guard_table_bench
exec bazel-bin/tests/bench/guard_table_bench "$@"
