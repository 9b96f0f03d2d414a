#!/usr/bin/env bash
# What the workers' jail costs the compile of a unit, at each level (bar: 1.03), and a worker's start.
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build //tests/bench:jail_bench //compiler:kiln-worker
exec bazel-bin/tests/bench/jail_bench "$PWD/bazel-bin/compiler/kiln-worker"
