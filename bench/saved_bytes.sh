#!/usr/bin/env bash
# Bytes a forward saves for its backward: Kiln, Inductor, and Kiln without its decompositions.
#
# usage: ./kiln bench saved_bytes [MODEL...] [--device cpu|cuda] [--each] [--list]
# Runs in build/torch-tests, which ./kiln test-torch makes. Traces only: nothing is compiled.
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/torch-tests/bin/python
if [[ ! -x $python ]]; then
  echo "kiln bench: $python is not there; ./kiln test-torch makes it" >&2
  exit 2
fi
exec "$python" bench/saved_bytes.py "$@"
