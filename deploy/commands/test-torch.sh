#!/usr/bin/env bash
# Installs the wheel beside PyTorch and runs the tests of the Python package.
#
# usage: ./kiln test-torch [PYTEST ARGUMENT...]      (default: all of tests/python)
#        ./kiln test-torch --quick                    the most telling tests, in 8 minutes on 2 cores
#        ./kiln test-torch tests/python --shard 2/4   a part: every fourth test, from the second on
# Of operators, --tally FILE adds what became of them to FILE, and prints what all of FILE comes to.
# PyTorch 2.11 comes from PyPI into build/torch (where the CUDA toolkit stands under /usr/local/cuda a small set of
# packages is enough), unless KILN_TORCH_PYTHON names the python of a virtual environment that has it. What the tests
# need beside (pytest, transformers, timm, grpcio) goes into build/torch-tests, which sees the other environment.
set -euo pipefail
cd "$(dirname "$0")/../.."

# make_torch: build/torch, with torch 2.11.
make_torch() {
  [[ -x build/torch/bin/python ]] && build/torch/bin/python -c 'import torch' 2>/dev/null && return
  echo "fetching PyTorch 2.11 from PyPI into build/torch" >&2
  python3 -m venv build/torch
  if [[ -d /usr/local/cuda/lib64 ]]; then
    build/torch/bin/pip install --quiet --no-deps torch==2.11.0
    build/torch/bin/pip install --quiet filelock typing-extensions sympy networkx jinja2 fsspec numpy safetensors \
      "setuptools<82" nvidia-cufile nvidia-cusparselt-cu13 nvidia-nvshmem-cu13==3.4.5
    build/torch/bin/python -c 'import torch' 2>/dev/null && return
  fi
  build/torch/bin/pip install --quiet torch==2.11.0 numpy safetensors
}

# make_tests PYTHON: build/torch-tests, which sees what PYTHON sees.
make_tests() {
  local folder=build/torch-tests
  if [[ ! -x $folder/bin/pytest || $(cat "$folder/of" 2>/dev/null) != "$1" ]] ||
    ! "$folder/bin/python" -c 'import grpc' 2>/dev/null; then
    rm -rf "$folder"
    "$1" -m venv "$folder"
    "$1" -c 'import site; print(site.getsitepackages()[0])' \
      >"$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps transformers timm torchvision==0.26.0
    "$folder/bin/pip" install --quiet --disable-pip-version-check huggingface-hub tokenizers regex pyyaml packaging \
      tqdm requests pillow pytest expecttest grpcio
    echo "$1" >"$folder/of"
  fi
}

torch_python=${KILN_TORCH_PYTHON:-}
if [[ -z $torch_python ]]; then
  make_torch
  torch_python=$PWD/build/torch/bin/python
fi
make_tests "$torch_python"
wheel=$(bash deploy/commands/wheel.sh)
build/torch-tests/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
[[ $# -gt 0 && "$*" != --quick ]] || set -- tests/python "$@"
exec build/torch-tests/bin/python -m pytest -p no:cacheprovider -q "$@"
