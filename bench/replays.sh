#!/usr/bin/env bash
# What a replay of a device graph costs a program in C++ or C beside the launch: microseconds and allocations a call.
set -euo pipefail
cd "$(dirname "$0")/.."
exec bazel run --ui_event_filters=-info --noshow_progress //tests/bench:replay_bench
