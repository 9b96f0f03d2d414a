#!/usr/bin/env bash
# Runs Kiln's corpus and GPU tests on this machine's GPU, with the libraries of the bundle; a table ends it.
#
# usage: run.sh [CORPUS_PATH...]     (default: tests/corpus/models of the tree this folder stands in)
# Environment: KILN_CUDA_LIBRARY_PATH, folders to search first for NVRTC, cuBLAS and cuDNN; KILN_TUNE_DEVICE and
# KILN_TUNE_ARCH, what the tuning is tried on (cuda, sm_90).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/kiln-gpu-XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib"
tar -C "$work/lib" -xzf "$here/lib.tar.gz" || exit 1
export LD_LIBRARY_PATH="$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

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
# A GPU is due here and so is what compiles for it: nothing may be skipped for want of NVRTC.
export KILN_NVRTC_IS_DUE=1

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
  counted=$(grep -E '^\[  (PASSED|SKIPPED|FAILED) +\] [0-9]+ tests?|^[0-9]+ passed|winner' "$work/out" |
    sed 's/^\[  \([A-Z]*\)  *\] \([0-9]*\) test.*/\2 \L\1/' | paste -sd, | sed 's/,/, /g; s/  */ /g')
  table+=$'\n'"$name|$verdict${counted:+: $counted}|$((SECONDS - start))"
}

for test in "$here"/tests/*; do
  part "$(basename "$test")" "$test" --gtest_brief=1
done

tree=$here
while [ "$tree" != / ] && [ ! -d "$tree/tests/corpus" ]; do tree=$(dirname "$tree"); done
if [ $# -eq 0 ]; then set -- "$tree/tests/corpus/models"; fi
part corpus "$here/bin/kiln-corpus" "$@" --device cuda --kilnd "$here/bin/kilnd" --worker "$here/bin/kiln-worker"

# One row kernel's variants, timed by a worker on this GPU; the winner goes into the tuning cache.
tune() {
  local environment='' name status=0
  for name in KILN_CUDA_LIBRARY_PATH LD_LIBRARY_PATH; do environment+="\"$name=${!name}\", "; done
  printf '[workers]\nprogram = "%s"\ncount = 1\nenv = [%s]\n' "$here/bin/kiln-worker" "$environment" >"$work/kilnd.toml"
  "$here/bin/kilnd" --config "$work/kilnd.toml" --socket "$work/kilnd.sock" --data-folder "$work/data" >"$work/kilnd.log" 2>&1 &
  local daemon=$! ctl=("$here/bin/compilectl" --socket "$work/kilnd.sock")
  for _ in $(seq 100); do
    if "${ctl[@]}" stats >/dev/null 2>&1; then break; fi
    sleep 0.1
  done
  "${ctl[@]}" tune --device "${KILN_TUNE_DEVICE:-cuda}" --arch "${KILN_TUNE_ARCH:-sm_90}" || { status=1; cat "$work/kilnd.log"; }
  kill "$daemon" && wait "$daemon"
  return $status
}
part tuning tune

echo
echo "$table" | column -t -s '|' 2>/dev/null || echo "$table"
exit $failed
