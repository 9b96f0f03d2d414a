#!/usr/bin/env bash
# Inductor against Kiln on a GPU at 300 points: the families of gpu_kernels at other sizes, dtypes and symbolic sizes.
#
# usage: ./kiln bench kernel_sweep [--points N] [--seed S] [--part I/N] [--families REGEX] [--backends inductor,kiln]
#                                  [--repeats N] [--json FILE] [--peer FILE] [--list]
# --part 1/2 and --part 2/2 are the halves of a sweep, for runs of limited time. Most of it is compiling. It needs what
# gpu_kernels.sh names, and so does a record:
#
#   PYTHONPATH=/tmp/site PYTHONPYCACHEPREFIX=/tmp/bytecode python3 bench/kernel_sweep.py --part 1/2 --json FILE
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

python=$(torch_python)
exec "$python" bench/kernel_sweep.py "$@"
