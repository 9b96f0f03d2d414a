#!/usr/bin/env bash
# Runs Kiln's corpus and GPU tests on this machine's GPU, with the libraries of the bundle; a table ends it.
#
# usage: run.sh [CORPUS_PATH...]     (default: models and operator samples, tests/corpus of the tree this folder stands in)
#        run.sh --torch [PYTEST ARGUMENT...]
# --torch runs tests/python of that tree instead, and then tests/seeds alone, since they measure memory; or the files that are
# named, as tests/python/test_cuda.py. They run with the bundle's wheel beside this machine's PyTorch: python3, or KILN_PYTHON,
# must have torch and pytest, and for all models transformers and timm; with pytest-xdist KILN_TEST_WORKERS processes share
# tests/python (default: half of the cores, 8 at most). CPU tests need g++ or clang++.
# Environment: KILN_CUDA_LIBRARY_PATH, folders to search first for NVRTC, cuBLAS and cuDNN; KILN_TUNE_DEVICE and
# KILN_TUNE_ARCH, what the tuning is tried on (cuda, sm_90).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/kiln-gpu-XXXXXX)
trap 'rm -rf "$work"' EXIT
tree=$here
while [ "$tree" != / ] && [ ! -d "$tree/tests/corpus" ]; do tree=$(dirname "$tree"); done
if [ "$tree" = / ]; then
  echo "run.sh: no folder above $here has tests/corpus" >&2
  exit 2
fi

failed=0
table="PART|RESULT|SECONDS"
# part NAME COMMAND...: runs it, and notes its last line that counts something, or "ok" and "FAILED".
part() {
  local name=$1 start=$SECONDS verdict=ok counted
  shift
  echo "== $name"
  if ! "$@" 2>&1 | tee "$work/out"; then
    verdict=FAILED
    failed=1
  fi
  counted=$(grep -E '^\[  (PASSED|SKIPPED|FAILED) +\] [0-9]+ tests?|^[0-9]+ (passed|failed|skipped)|winner' "$work/out" |
    sed 's/^\[  \([A-Z]*\)  *\] \([0-9]*\) test.*/\2 \L\1/' | paste -sd, | sed 's/,/, /g; s/  */ /g; s/ in [0-9.]*s.*//')
  table+=$'\n'"$name|$verdict${counted:+: $counted}|$((SECONDS - start))"
}
finish() {
  echo
  echo "$table" | column -t -s '|' 2>/dev/null || echo "$table"
  exit $failed
}

# The tests of the Python package, with the words that follow --torch.
torch_tests() {
  local python=${KILN_PYTHON:-python3} words=() cores
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$work/site" "$here"/*.whl ||
    exit 1
  unset PYTHONDONTWRITEBYTECODE # each of many processes would compile PyTorch's modules
  export PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}" PYTHONPYCACHEPREFIX="$work/bytecode" PYTHONUNBUFFERED=1
  "$python" - <<'P' || exit 1
import importlib.metadata as m, sys, torch
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return "not here"
names = ("torch", "pytest", "pytest-xdist", "pytest-timeout", "transformers", "timm", "torchvision")
print("python", sys.version.split()[0], *(f"· {name} {version(name)}" for name in names))
gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print("GPU:", ", ".join(gpus) or "none; what needs one is skipped")
P
  "$python" -c 'import xdist' 2>/dev/null && {
    cores=$(($(nproc) / 2))
    words+=(-n "${KILN_TEST_WORKERS:-$((cores < 1 ? 1 : cores > 8 ? 8 : cores))}")
  }
  "$python" -c 'import pytest_timeout' 2>/dev/null && words+=(--timeout 300)
  if [ $# -eq 0 ] && ! command -v g++ clang++ >/dev/null; then
    echo "run.sh: neither g++ nor clang++ is here, and tests on the CPU compile with one: test_cuda.py alone is run" >&2
    table+=$'\n'"CPU tests|NOT RUN: no g++ or clang++|0"
    set -- tests/python/test_cuda.py "$@"
  fi
  cd "$tree" || exit 1
  pytest() { "$python" -m pytest -p no:cacheprovider -q -rfE --show-capture=no "$@"; }
  local word named=
  for word in "$@"; do [ -e "${word%%::*}" ] && named=1; done
  if [ -n "$named" ]; then
    part "tests that are named" pytest "${words[@]}" "$@"
    return
  fi
  part tests/python pytest "${words[@]}" tests/python "$@"
  [ -d tests/seeds ] && part tests/seeds pytest tests/seeds "$@"
}
if [ "${1:-}" = --torch ]; then
  shift
  torch_tests "$@"
  finish
fi

# The wheel's programs find their libraries themselves; the bundle's own find them there.
python3 -m zipfile -e "$here"/*.whl "$work/wheel" || exit 1
tar -C "$work" -xJf "$here/programs.tar.xz" || exit 1
bin=$work/wheel/kiln/_bin
chmod +x "$bin"/*
export LD_LIBRARY_PATH="$bin:$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

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
# A GPU is expected here, and NVRTC, which compiles for it: without NVRTC tests fail and are not skipped.
export KILN_NVRTC_IS_DUE=1

for test in "$work"/tests/*; do
  part "$(basename "$test")" "$test" --gtest_brief=1
done

part "replays from C++" "$work/bin/replay_bench" --device=cuda

# Samples were recorded on the CPU: cuda_dtypes.json says which results have another dtype on CUDA.
corpus() {
  "$work/bin/kiln-corpus" "$@" --device cuda --cuda-dtypes "$tree/tests/corpus/cuda_dtypes.json" \
    --kilnd "$bin/kilnd" --worker "$bin/kiln-worker"
}
if [ $# -eq 0 ]; then
  part "corpus: models" corpus "$tree/tests/corpus/models"
  part "corpus: operators" corpus "$tree/tests/corpus/ops"
else
  part corpus corpus "$@"
fi

# The kernels of one small graph, each in several configurations, timed by a worker on this GPU; the winners go into the tuning cache.
tune() {
  local status=0
  printf '[workers]\nprogram = "%s"\ncount = 1\nenv = ["KILN_CUDA_LIBRARY_PATH=%s"]\n' "$bin/kiln-worker" \
    "$KILN_CUDA_LIBRARY_PATH" >"$work/kilnd.toml"
  "$bin/kilnd" --config "$work/kilnd.toml" --socket "$work/kilnd.sock" --data-folder "$work/data" >"$work/kilnd.log" 2>&1 &
  local daemon=$! ctl=("$bin/compilectl" --socket "$work/kilnd.sock")
  for _ in $(seq 100); do
    if "${ctl[@]}" stats >/dev/null 2>&1; then break; fi
    sleep 0.1
  done
  "${ctl[@]}" --timeout 600 tune "$tree/tests/corpus/ops/native_layer_norm.jsonl" --device "${KILN_TUNE_DEVICE:-cuda}" --arch "${KILN_TUNE_ARCH:-sm_90}" || { status=1; cat "$work/kilnd.log"; }
  kill "$daemon" && wait "$daemon"
  return $status
}
part tuning tune
finish
