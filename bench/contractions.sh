#!/usr/bin/env bash
# Products, attention and convolutions on a GPU: Kiln beside the best of PyTorch, in one process.
#
# usage: ./kiln bench contractions [GROUP...] [--cases REGEX] [--repeats N] [--json FILE] [--profile]
# Groups: products odd attention convolutions; all, where none is named. Each takes some 100 s. Needs a GPU that nothing else
# uses, torch with Triton, and Kiln's wheel, as gpu_kernels.sh says.
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/torch_python.bash

python=$(torch_python)
exec "$python" bench/contractions.py "$@"
