#!/usr/bin/env bash
# Makes a folder that runs the corpus and the GPU tests on a machine with an NVIDIA driver.
set -euo pipefail
cd "$(dirname "$0")/../.."
deploy/install_deps.sh
exec deploy/gpu_bundle.sh "$@"
