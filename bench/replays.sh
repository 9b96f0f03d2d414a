#!/usr/bin/env bash
# What a replay of a device graph costs a program beside the launch: from C++ or C microseconds and allocations a call, from Python microseconds.
set -euo pipefail
cd "$(dirname "$0")/.."

bazel run --ui_event_filters=-info --noshow_progress //tests/bench:replay_bench
python=build/torch-tests/bin/python
if [[ ! -x $python ]]; then
  echo "kiln bench replays: from Python: $python is not there; ./kiln test-torch makes it" >&2
  exit 0
fi
exec "$python" bench/replays.py
