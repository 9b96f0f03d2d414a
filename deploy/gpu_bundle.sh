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
  //tests/gpu:gpu_test
)

# The loader, libc and what moves with them must be the machine's own.
system_libraries='^(ld-linux|libc|libm|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_)[-.]'

bazel build "${programs[@]}"
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
for target in "${programs[@]}"; do
  path=bazel-bin/${target#//}
  name=${target##*:}
  install -m 755 "${path/://}" "$out/bin/$name"
  strip "$out/bin/$name"
done
# patchelf is not needed: run.sh sets the library path.
ldd "$out"/bin/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
  name=$(basename "$library")
  if [[ ! $name =~ $system_libraries ]]; then
    install -m 644 "$library" "$out/lib/$name"
    strip --strip-unneeded "$out/lib/$name"
  fi
done
install -m 755 deploy/gpu_bundle_run.sh "$out/run.sh"
git rev-parse HEAD > "$out/revision"
echo "gpu bundle: $out, $(du -sm "$out" | cut -f1) MiB; on the GPU machine: $out/run.sh"
