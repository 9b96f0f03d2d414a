#!/usr/bin/env bash
# GPU time of 39 kernel families, from LayerNorm to AdamW: eager mode, Inductor and Kiln in one process.
#
# usage: ./kiln bench gpu_kernels [--families REGEX] [--backends eager,inductor,kiln] [--repeats N]
#                                 [--json FILE] [--peer FILE] [--profile]
# Needs a GPU, torch with Triton, and Kiln's wheel. Runs with the python of KILN_PYTHON; not set: that of build/torch-tests,
# which ./kiln test-torch makes, else python3. On a bare machine with the bundle of ./kiln gpu-bundle:
#
#   python3 -m pip install --no-index --no-deps --target /tmp/site build/gpu-bundle/*.whl
#   unset PYTHONDONTWRITEBYTECODE
#   PYTHONPATH=/tmp/site PYTHONPYCACHEPREFIX=/tmp/bytecode python3 bench/gpu_kernels.py --json FILE
#
# A record needs all three backends in one run, a GPU that nothing else uses, and KILN_OPTIONS not set. The seconds of first
# calls count only where the caches of both are empty, as on a new machine. The first line of the output is the command with
# its variables, and the machine. --peer takes eager mode's and Inductor's figures from an earlier FILE: for quick looks, since
# machines differ by a few per cent.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

python=$(torch_python)
exec "$python" bench/gpu_kernels.py "$@"
