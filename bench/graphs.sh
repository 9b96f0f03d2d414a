#!/usr/bin/env bash
# Device graphs on a GPU: steps, replays, memory and recording time, Kiln beside Inductor's reduce-overhead.
#
# usage: ./kiln bench graphs [CASE...] [--turns N] [--steps N] [--seconds N]
# Cases: resnet50 gpt2 bert decode1 decode16 calls path; all, where none is named. Needs a GPU that nothing else uses, torch
# with Triton, transformers and torchvision, and Kiln's wheel, as gpu_kernels.sh says.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

python=$(torch_python)
exec "$python" bench/graphs.py "$@"
