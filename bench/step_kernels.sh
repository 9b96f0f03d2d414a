#!/usr/bin/env bash
# The kernels of a training step, by the profiler: Kiln's and Inductor's generated ones, and all others.
#
# usage: ./kiln bench step_kernels [MODEL...] [--backends inductor,kiln] [--steps N] [--longest N]
# Needs a GPU, torch with Triton, transformers and torchvision, and Kiln's wheel, as gpu_kernels.sh says.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

python=$(torch_python)
exec "$python" bench/step_kernels.py "$@"
