#!/usr/bin/env bash
# Makes a folder that runs the corpus and the GPU tests on a machine with an NVIDIA driver.
#
# usage: ./kiln gpu-bundle [FOLDER]      (default: build/gpu-bundle)
# Copy it with tests/corpus to that machine, and start its run.sh there.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ $# -gt 1 || ${1:-} == -* ]]; then
  echo "kiln gpu-bundle: due at most one FOLDER; \"$*\" was found" >&2
  exit 2
fi
deploy/install_deps.sh
exec deploy/gpu_bundle.sh "$@"
