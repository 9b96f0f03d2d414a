# Sourced by commands that compile for CUDA: tells workers where install_deps.sh put NVRTC, unless
# the caller has said so or a toolkit is installed.
if [[ -z ${KILN_CUDA_LIBRARY_PATH:-} ]]; then
  nvrtc_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/nvrtc/nvidia/cu13/lib
  if [[ -d $nvrtc_folder ]]; then
    export KILN_CUDA_LIBRARY_PATH=$nvrtc_folder
  fi
fi
