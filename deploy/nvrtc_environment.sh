# Sourced by commands that compile for CUDA: tells workers where install_deps.sh put NVRTC, unless
# the caller has said so or a toolkit is installed.
if [[ -z ${KILN_CUDA_LIBRARY_PATH:-} ]]; then
  nvrtc_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/nvrtc/nvidia/cu13/lib
  if [[ -d $nvrtc_folder ]]; then
    export KILN_CUDA_LIBRARY_PATH=$nvrtc_folder
  fi
fi

# Whether NVRTC of CUDA 13 stands in one of those folders or in a toolkit, where workers look.
nvrtc_stands() {
  local folders folder
  IFS=: read -ra folders <<<"${KILN_CUDA_LIBRARY_PATH:-}"
  for folder in "${folders[@]}" /usr/local/cuda/lib64 /usr/local/cuda-13.0/lib64 /usr/local/cuda/lib; do
    if compgen -G "$folder/libnvrtc.so.13*" >/dev/null; then return 0; fi
  done
  return 1
}
