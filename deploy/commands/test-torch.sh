#!/usr/bin/env bash
# Installs the wheel beside PyTorch and runs the tests of the Python package.
#
# usage: ./kiln test-torch [--torch VERSION] [PYTEST ARGUMENT...]      (default: all of tests/python and tests/seeds)
#        ./kiln test-torch --quick                    the most telling tests, in 5 minutes on 2 cores
#        ./kiln test-torch tests/python --shard 2/4   a part: every fourth test, from the second on
#        ./kiln test-torch --torch 2.9.1 --quick      the same beside another PyTorch, from 2.9.0 on
# All of them, and the quick ones, are shared by KILN_TEST_WORKERS processes (default: as many as there are cores, 8 at most).
# Of operators, --tally FILE adds what became of them to FILE, and prints what all of FILE comes to.
# PyTorch 2.11 comes from PyPI into build/torch (--torch 2.9.1: build/torch-2.9.1), unless KILN_TORCH_PYTHON names the
# python of a virtual environment that has it: half a minute and 2 GB where there is no GPU (deploy/torch/cuda_stand_ins.py
# has CUDA's libraries not fetched), 7 GB where there is one. What the tests need beside (pytest, transformers, timm, grpcio)
# goes into a folder of the same name with -tests, which sees the other environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
unset PYTHONDONTWRITEBYTECODE # many processes would each compile PyTorch's modules, twice a process's start

version=2.11.0
folder=build/torch
if [[ ${1:-} == --torch ]]; then
  if [[ ! ${2:-} =~ ^2\.[0-9]+\.[0-9]+$ ]]; then
    echo "kiln test-torch: --torch: expected a version like 2.9.1, found \"${2:-}\"" >&2
    exit 2
  fi
  if [[ -n ${KILN_TORCH_PYTHON:-} ]]; then
    echo "kiln test-torch: --torch names a version and KILN_TORCH_PYTHON a python: give one of them" >&2
    exit 2
  fi
  version=$2
  folder=build/torch-$version
  shift 2
fi

install() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "${@:2}"; }

# make_torch: $folder, with torch $version.
make_torch() {
  [[ $("$folder/bin/python" -c 'import torch; print(torch.__version__.partition("+")[0])' 2>/dev/null) != "$version" ]] ||
    return 0
  echo "kiln test-torch: fetching PyTorch $version from PyPI into $folder" >&2
  rm -rf "$folder"
  python3 -m venv "$folder"
  if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
    install "$folder" "torch==$version" numpy safetensors
    return
  fi
  install "$folder" filelock typing-extensions sympy networkx jinja2 fsspec numpy safetensors "setuptools>=77,<82"
  install "$folder" --no-deps "torch==$version"
  python3 deploy/torch/cuda_stand_ins.py "$("$folder/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch/lib"
}

# torchvision: what pip is asked for beside torch $version. From 2.14 on one serves all.
torchvision() {
  local minor patch
  IFS=. read -r _ minor patch <<<"$version"
  if [[ $minor -ge 14 ]]; then echo "torchvision>=0.29.1"; else echo "torchvision==0.$((minor + 15)).$patch"; fi
}

# make_tests PYTHON: $folder-tests, which sees what PYTHON sees.
make_tests() {
  local tests=$folder-tests
  local of="$1 $version, pyflakes" # the last that came to the list below
  [[ $(cat "$tests/of" 2>/dev/null) != "$of" ]] || return 0
  rm -rf "$tests"
  "$1" -m venv "$tests"
  "$1" -c 'import site; print(site.getsitepackages()[0])' \
    >"$("$tests/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth"
  install "$tests" huggingface-hub tokenizers regex pyyaml packaging tqdm requests pillow pytest pytest-xdist pyflakes expecttest grpcio
  install "$tests" --no-deps transformers accelerate psutil timm "$(torchvision)"
  echo "$of" >"$tests/of"
}

torch_python=${KILN_TORCH_PYTHON:-}
if [[ -z $torch_python ]]; then
  deploy/install_deps.sh
  make_torch
  torch_python=$PWD/$folder/bin/python
fi
make_tests "$torch_python"
wheel=$(bash deploy/commands/wheel.sh)
install "$folder-tests" --no-deps --force-reinstall "$wheel"
# Words that name no test are for all of them.
named=
for word in "$@"; do [[ -e ${word%%::*} ]] && named=1; done
if [[ -z $named ]]; then
  cores=$(nproc)
  set -- tests/python tests/seeds -n "${KILN_TEST_WORKERS:-$((cores > 8 ? 8 : cores))}" "$@"
fi
exec "$folder-tests/bin/python" -m pytest -p no:cacheprovider -q --show-capture=stderr "$@"
