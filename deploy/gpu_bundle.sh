#!/usr/bin/env bash
# Makes a folder that runs Kiln's corpus and GPU tests on a Linux machine with an NVIDIA driver:
# our binaries, the shared libraries they need (but the C library's own), and run.sh. The corpus is
# read from the tree the folder stands in. NVRTC, cuBLAS and cuDNN come from the machine: a CUDA
# toolkit or PyTorch's wheels.
#
# usage: deploy/gpu_bundle.sh [FOLDER]      (default: build/gpu-bundle)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu-bundle}

# What goes in: target, then the name in the bundle.
programs=(
  //server:kilnd
  //compiler:kiln-worker
  //client/corpus_runner:kiln-corpus
  //client/compilectl:compilectl
)
# Tests that use a GPU where there is one.
tests=(
  //tests/gpu:gpu_test
  //tests/runtime:device_conformance_test
  //tests/compiler/codegen:kernel_meaning_test
)

# The loader, libc and what moves with them must be the machine's own.
system_libraries='^(ld-linux|libc|libm|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_)[-.]'

bazel build "${programs[@]}" "${tests[@]}"
rm -rf "$out"
mkdir -p "$out/bin" "$out/tests" "$out/lib"

# add TARGET FOLDER: the stripped program of a target.
add() {
  local path=bazel-bin/${1#//}
  install -m 755 "${path/://}" "$2/${1##*:}"
  strip "$2/${1##*:}"
}
for target in "${programs[@]}"; do add "$target" "$out/bin"; done
for target in "${tests[@]}"; do add "$target" "$out/tests"; done
# run.sh sets the library path.
ldd "$out"/bin/* "$out"/tests/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
  name=$(basename "$library")
  if [[ ! $name =~ $system_libraries ]]; then
    install -m 644 "$library" "$out/lib/$name"
    strip --strip-unneeded "$out/lib/$name"
  fi
done
install -m 755 deploy/gpu_bundle_run.sh "$out/run.sh"
git rev-parse HEAD > "$out/revision"
echo "gpu bundle: $out, $(du -sm "$out" | cut -f1) MiB; on the GPU machine: $out/run.sh"
