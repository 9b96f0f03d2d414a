#include "tests/support/nvrtc_of_tests.h"

#include <cstdlib>

#include "absl/strings/str_split.h"
#include "compiler/toolchain/nvrtc_toolchain.h"

namespace kiln {

std::vector<std::string> NvrtcFoldersOfTests() {
  std::vector<std::string> folders;
  if (const char* said = std::getenv("KILN_CUDA_LIBRARY_PATH")) {
    folders = absl::StrSplit(said, ':', absl::SkipEmpty());
  }
  for (std::string& folder : UsualCudaFolders()) {
    folders.push_back(std::move(folder));
  }
  return folders;
}

bool NvrtcIsDue() { return std::getenv("KILN_NVRTC_IS_DUE") != nullptr; }

}  // namespace kiln
