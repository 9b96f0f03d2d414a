#!/usr/bin/env bash
# Runs Kiln's corpus and GPU tests on this machine's GPU, with the libraries of the bundle.
#
# usage: run.sh [CORPUS_PATH…]     (default: tests/corpus/models of the tree this folder stands in)
# Environment: KILN_CUDA_LIBRARY_PATH, folders to search first for NVRTC, cuBLAS and cuDNN.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# Where PyTorch's wheels keep CUDA's libraries, if a Python with PyTorch is here.
if [ -z "${KILN_CUDA_LIBRARY_PATH:-}" ]; then
  KILN_CUDA_LIBRARY_PATH=$(LD_LIBRARY_PATH='' python3 - <<'P' 2>/dev/null || true
import glob, os, site, sysconfig
roots = {sysconfig.get_paths()["purelib"], *site.getsitepackages()}
print(":".join(sorted(d for r in roots for d in glob.glob(os.path.join(r, "nvidia", "*", "lib")))))
P
)
  export KILN_CUDA_LIBRARY_PATH
fi

tree=$here
while [ "$tree" != / ] && [ ! -d "$tree/tests/corpus" ]; do tree=$(dirname "$tree"); done
failed=0
for test in "$here"/tests/*; do
  echo "== $(basename "$test")"
  "$test" --gtest_brief=1 || failed=1
done
echo "== corpus"
if [ $# -eq 0 ]; then set -- "$tree/tests/corpus/models"; fi
"$here/bin/kiln-corpus" "$@" --device cuda --kilnd "$here/bin/kilnd" --worker "$here/bin/kiln-worker" || failed=1
exit $failed
