#ifndef KILN_COMPILER_TOOLCHAIN_NVRTC_TOOLCHAIN_H_
#define KILN_COMPILER_TOOLCHAIN_NVRTC_TOOLCHAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "compiler/toolchain/toolchain.h"

namespace kiln {

struct NvrtcConfig {
  // Folders that may hold libnvrtc, tried in order before the loader's own:
  // a CUDA toolkit's lib64, or "nvidia/cu13/lib" of PyPI's wheels.
  std::vector<std::string> library_dirs;
  // A folder to take it from and no other; empty: as above.
  std::string only_dir;
};

// The folders where a CUDA toolkit is usually installed.
std::vector<std::string> UsualCudaFolders();

// Builds cubins with libnvrtc, which is opened at the first use and kept: it
// costs 26-56 ms and some 70 MB that a worker without CUDA work never pays.
// Needs neither a GPU nor a driver. One thread at a time.
std::unique_ptr<Toolchain> MakeNvrtcToolchain(NvrtcConfig config);

}  // namespace kiln

#endif  // KILN_COMPILER_TOOLCHAIN_NVRTC_TOOLCHAIN_H_
