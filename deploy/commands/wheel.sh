#!/usr/bin/env bash
# Makes the Python wheel: torch.compile(model, backend="kiln").
#
# usage: ./kiln wheel [FOLDER]      (default: build/wheel)
# One wheel for Python 3.10 and later on Linux x86-64, with kilnd, kiln-worker, compilectl and all
# their libraries inside. Prints its path.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ $# -gt 1 || ${1:-} == -* ]]; then
  echo "kiln wheel: expected at most one FOLDER, found \"$*\"" >&2
  exit 2
fi
deploy/install_deps.sh
source deploy/build.sh
build //server:kilnd //compiler:kiln-worker //client/compilectl:compilectl \
  //client/python:_native.abi3.so //client/python:libkiln.so
python3 deploy/wheel/make_wheel.py bazel-bin "${1:-build/wheel}"
