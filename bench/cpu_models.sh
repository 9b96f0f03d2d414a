#!/usr/bin/env bash
# CPU time of inference on two threads (BERT-base, ResNet-50, linear + gelu, conv + relu, a linear and a convolution of doubles):
# Inductor's C++ and Kiln, in turns.
#
# usage: ./kiln bench cpu_models [--models REGEX] [--backends eager,inductor,kiln] [--repeats N] [--threads N] [--json FILE]
# Needs torch, the wheel and g++: the python of KILN_PYTHON (default: build/torch-tests, which ./kiln test-torch makes; else
# python3). A record needs two free cores, all backends in one run, and KILN_OPTIONS and KILN_CACHE_DIR not set.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

python=$(torch_python)
exec "$python" bench/cpu_models.py "$@"
