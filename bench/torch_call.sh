#!/usr/bin/env bash
# A compiled call from Python: Kiln, Inductor and a backend that does nothing; Kiln's own part.
#
# usage: ./kiln bench torch_call [--device cpu|cuda] [--seconds N] [--json]
# Runs in build/torch-tests, which ./kiln test-torch makes.
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/torch-tests/bin/python
if [[ ! -x $python ]]; then
  echo "kiln bench torch_call: $python is not there; ./kiln test-torch makes it" >&2
  exit 2
fi
exec "$python" bench/torch_call.py "$@"
