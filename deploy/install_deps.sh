#!/usr/bin/env bash
# Installs what Kiln is built with, on Debian 12: packages from Debian, and where no CUDA toolkit stands, NVRTC from
# PyPI into build/nvrtc. Quick when everything is there. Without root it prints what to type. Ends with apt-get's own
# status where that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  g++ clang-14 clang-format clang-tidy
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  librocksdb-dev libspdlog-dev libgtest-dev libgmock-dev libbenchmark-dev
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libxxhash-dev libzstd-dev libssl-dev libdnnl-dev
  redis-server iproute2 nftables
  ca-certificates git procps python3 python3-dev python3-venv
)

# apt_get WORDS...: waits, with a bound, while another process (a first boot's upgrades, say) holds one of apt's locks.
apt_get() {
  local tries=60 pause=5 said status
  said=$(mktemp)
  while true; do
    status=0
    { LC_ALL=C apt-get "$@" 2>&1 >&3 | tee "$said" >&2; } 3>&1 || status=$?
    if [[ $status -eq 0 ]] || ! grep -q '^E: Could not get lock' "$said"; then break; fi
    if ((--tries == 0)); then
      echo "install_deps: apt's lock is still held; try again when the process named above has ended" >&2
      break
    fi
    echo "install_deps: another process holds apt's lock; waiting, $((tries * pause)) s more at most" >&2
    sleep "$pause"
  done
  rm -f "$said"
  return "$status"
}

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done

if [[ ${#missing[@]} -gt 0 ]]; then
  install=(install --yes --no-install-recommends "${missing[@]}")
  if [[ $(id -u) -eq 0 ]]; then
    echo "install_deps: installing ${#missing[@]} Debian packages"
    export DEBIAN_FRONTEND=noninteractive
    apt_get update --quiet
    apt_get "${install[@]}"
  else
    echo "install_deps: Kiln needs Debian packages that are not installed. Type:" >&2
    echo >&2
    echo "  sudo apt-get update && sudo apt-get ${install[*]}" >&2
    exit 1
  fi
fi

# NVRTC turns CUDA sources into cubins and needs neither a GPU nor a driver. Without it everything else works, so that what
# goes wrong here is told and ends nothing.
source deploy/nvrtc_environment.sh

# fetch_nvrtc: puts NVRTC into build/nvrtc; false when it can't be had.
fetch_nvrtc() (
  mkdir -p build && staging=$(mktemp -d build/nvrtc.XXXXXX) || exit 1
  trap 'rm -rf "$staging"' EXIT
  python3 -m venv "$staging/venv" &&
    "$staging/venv/bin/pip" install --quiet --disable-pip-version-check --retries 2 --no-deps \
      --target "$staging/nvrtc" 'nvidia-cuda-nvrtc>=13.0,<13.1' 'nvidia-cuda-runtime>=13.0,<13.1' &&
    rm -rf build/nvrtc && mv "$staging/nvrtc" build/nvrtc
)

if [[ -z ${KILN_NVRTC:-} ]] && ! nvrtc_stands; then
  echo "install_deps: fetching NVRTC from PyPI into build/nvrtc (225 MB)"
  if ! fetch_nvrtc; then
    cat >&2 <<'TEXT'
install_deps: NVRTC could not be fetched. The CPU needs none of it; what is compiled for CUDA will answer NO_TOOLCHAIN. To have it,
  where PyPI can be reached: run deploy/install_deps.sh again;
  from a CUDA 13 toolkit or a copy: export KILN_CUDA_LIBRARY_PATH=FOLDER, the folder that has libnvrtc.so.13.
TEXT
  fi
fi
