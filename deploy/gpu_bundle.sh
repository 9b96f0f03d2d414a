#!/usr/bin/env bash
# Makes a folder that runs Kiln's corpus and GPU tests on a Linux machine with an NVIDIA driver:
# our binaries, every test tagged "gpu", the shared libraries they need (but the C library's own)
# as lib.tar.gz, and run.sh. The corpus is read from the tree the folder stands in. NVRTC, cuBLAS
# and cuDNN come from the machine: a CUDA toolkit or PyTorch's wheels.
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
mapfile -t tests < <(bazel query --noshow_progress 'attr(tags, "\bgpu\b", kind(cc_test, //tests/...))' 2>/dev/null)
[[ ${#tests[@]} -gt 0 ]] || { echo "gpu bundle: no test is tagged \"gpu\"" >&2; exit 1; }

# The loader, libc and what moves with them must be the machine's own.
system_libraries='^(ld-linux|libc|libm|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_)[-.]'

bazel build "${programs[@]}" "${tests[@]}"
rm -rf "$out"
mkdir -p "$out/bin" "$out/tests"
libraries=$(mktemp -d)
trap 'rm -rf "$libraries"' EXIT

# add TARGET FOLDER: the stripped program of a target.
add() {
  local path=bazel-bin/${1#//}
  install -m 755 "${path/://}" "$2/${1##*:}"
  strip "$2/${1##*:}"
}
for target in "${programs[@]}"; do add "$target" "$out/bin"; done
for target in "${tests[@]}"; do add "$target" "$out/tests"; done
# run.sh unpacks them and sets the library path.
ldd "$out"/bin/* "$out"/tests/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
  name=$(basename "$library")
  if [[ ! $name =~ $system_libraries ]]; then
    install -m 644 "$library" "$libraries/$name"
    strip --strip-unneeded "$libraries/$name"
  fi
done
tar -C "$libraries" -c . | gzip -9 >"$out/lib.tar.gz"
install -m 755 deploy/gpu_bundle_run.sh "$out/run.sh"
git rev-parse HEAD >"$out/revision"

bundle=$(du -s --apparent-size -k "$out" | cut -f1)
tree=$(git ls-files -z | xargs -0 du -c --apparent-size -k | awk '$2 == "total" {k += $1} END {print k}')
printf 'gpu bundle: %s, %d MiB, and %d MiB of repository; on the GPU machine: %s/run.sh\n' \
  "$out" $((bundle / 1024)) $((tree / 1024)) "$out"
# What travels to a GPU machine must be carried easily.
if [[ $((bundle + tree)) -ge $((60 * 1024)) ]]; then
  echo "gpu bundle: together they are over 60 MiB" >&2
  exit 1
fi
