#!/usr/bin/env bash
# Makes a folder that runs Kiln's corpus, GPU tests and Python tests on a Linux machine with an NVIDIA driver: the Python wheel,
# whose programs and libraries serve all, kiln-corpus, the bench of replays, every test tagged "gpu", and run.sh. The corpus and tests/python are
# read from the tree the folder stands in. NVRTC, cuBLAS and cuDNN come from the machine: a CUDA toolkit or PyTorch's wheels.
#
# usage: deploy/gpu_bundle.sh [FOLDER]      (default: build/gpu-bundle)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu-bundle}

# Tests that use a GPU where there is one.
mapfile -t tests < <(bazel query --noshow_progress 'attr(tags, "\bgpu\b", kind(cc_test, //tests/...))' 2>/dev/null)
[[ ${#tests[@]} -gt 0 ]] || { echo "kiln gpu-bundle: no test is tagged \"gpu\"" >&2; exit 1; }

source deploy/build.sh
build //client/corpus_runner:kiln-corpus //tests/bench:replay_bench "${tests[@]}"
rm -rf "$out"
mkdir -p "$out/bin" "$out/tests" "$out/lib"
wheel=$(bash deploy/commands/wheel.sh "$out")

# add TARGET FOLDER: the stripped program of a target.
add() {
  local path=bazel-bin/${1#//}
  install -m 755 "${path/://}" "$2/${1##*:}"
  strip "$2/${1##*:}"
}
add //client/corpus_runner:kiln-corpus "$out/bin"
add //tests/bench:replay_bench "$out/bin"
for target in "${tests[@]}"; do add "$target" "$out/tests"; done
python3 deploy/gpu_bundle_libraries.py "$wheel" "$out/lib" "$out"/bin/* "$out"/tests/*
# A third of their size; the wheel is packed already.
tar -C "$out" -cJf "$out/programs.tar.xz" bin tests lib
rm -r "$out/bin" "$out/tests" "$out/lib"
install -m 755 deploy/gpu_bundle_run.sh "$out/run.sh"
git rev-parse HEAD >"$out/revision"

bundle=$(du -s --apparent-size -k "$out" | cut -f1)
tree=$(git ls-files -z | xargs -0 du -c --apparent-size -k | awk '$2 == "total" {k += $1} END {print k}')
printf 'kiln gpu-bundle: %s, %d MiB, and %d MiB of repository; on the GPU machine: %s/run.sh\n' \
  "$out" $((bundle / 1024)) $((tree / 1024)) "$out"
# What travels to a GPU machine must be carried easily.
if [[ $((bundle + tree)) -ge $((60 * 1024)) ]]; then
  echo "kiln gpu-bundle: together they are over 60 MiB" >&2
  exit 1
fi
