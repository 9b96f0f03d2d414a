#!/usr/bin/env bash
# Runs corpus files and compares with PyTorch's results.
#
# usage: ./kiln corpus PATH... [--device cpu|cuda|cuda-compile] [--local] [--case NAME] [--report FILE] [--progress] ...
# PATH is a folder or a NAME.jsonl, also outside of the project. A line a case: ok, compiled (nothing to compare with), WRONG,
# UNIMPLEMENTED or FAILED; last "N passed, N failed, N unimplemented". Exits with 1 when a case failed. Cases go through a
# daemon of their own, or that of --daemon SOCKET; --local does without one. All options:
# bazel-bin/client/corpus_runner/kiln-corpus --help
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

if [[ $# -eq 0 ]]; then
  echo "kiln corpus: expected at least one PATH; see ./kiln corpus --help" >&2
  exit 2
fi
for path in "$@"; do
  [[ $path != -* ]] || break  # what follows may be an option's
  [[ -e $path ]] || { echo "kiln corpus: $path: no such file or folder" >&2; exit 2; }
done
source "$root/deploy/build.sh"
(cd "$root" && build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker)
source "$root/deploy/nvrtc_environment.sh"
# Of its own, so that nothing stays behind when it is stopped half way.
TMPDIR=$(mktemp -d /tmp/kiln-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
"$root/bazel-bin/client/corpus_runner/kiln-corpus" "$@"
