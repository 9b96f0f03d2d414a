#!/usr/bin/env bash
# Makes a folder that runs the corpus, GPU tests and Python tests on a machine with an NVIDIA driver.
#
# usage: ./kiln gpu-bundle [FOLDER]      (default: build/gpu-bundle)
# Copy it with tests/corpus, tests/python and tests/seeds to that machine, and start its run.sh there: run.sh for the corpus and GPU
# tests, run.sh --torch [PYTEST ARGUMENT...] for the Python tests beside that machine's PyTorch.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ $# -gt 1 || ${1:-} == -* ]]; then
  echo "kiln gpu-bundle: expected at most one FOLDER, found \"$*\"" >&2
  exit 2
fi
deploy/install_deps.sh
exec deploy/gpu_bundle.sh "$@"
