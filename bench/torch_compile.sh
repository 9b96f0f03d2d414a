#!/usr/bin/env bash
# Models under torch.compile, cold and warm: to the end of the first step, and later steps; Kiln and Inductor in one run.
#
# usage: ./kiln bench torch_compile [MODEL...] [--device cpu|cuda] [--kinds cold,warm] [--steps N]
# Models: gpt2 bert resnet50 llama; without a GPU a small gpt2 on the CPU. Runs in build/torch-tests, which ./kiln test-torch
# makes; elsewhere: python bench/torch_compile.py beside a wheel that is installed. On a bare machine with the GPU bundle,
# whose PyTorch has no compiled bytecode, a record needs
#
#   python3 -m pip install --no-index --no-deps --target /tmp/site build/gpu-bundle/*.whl
#   unset PYTHONDONTWRITEBYTECODE
#   export PYTHONPATH=/tmp/site PYTHONPYCACHEPREFIX=/tmp/bytecode
#   python3 -m compileall -q -j 0 "$(python3 -c 'import site; print(site.getsitepackages()[0])')" /tmp/site
#   python3 bench/torch_compile.py --device cuda
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/torch-tests/bin/python
if [[ ! -x $python ]]; then
  echo "kiln bench torch_compile: $python is not there; ./kiln test-torch makes it" >&2
  exit 2
fi
exec "$python" bench/torch_compile.py "$@"
