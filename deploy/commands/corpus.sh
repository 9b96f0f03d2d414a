#!/usr/bin/env bash
# Runs corpus files and compares with PyTorch's results: ./kiln corpus PATH... [--device cpu|cuda|cuda-compile]
#
# PATH is a folder or a NAME.jsonl, also outside the project. ./kiln corpus --help lists all options.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

(cd "$root" && bazel build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker)
source "$root/deploy/nvrtc_environment.sh"
exec "$root/bazel-bin/client/corpus_runner/kiln-corpus" "$@"
