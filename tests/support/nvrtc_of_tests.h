#ifndef KILN_TESTS_SUPPORT_NVRTC_OF_TESTS_H_
#define KILN_TESTS_SUPPORT_NVRTC_OF_TESTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kiln {

// Where tests look for NVRTC: KILN_CUDA_LIBRARY_PATH, which `./kiln test` sets
// to where install_deps.sh has put it, then where toolkits usually stand.
std::vector<std::string> NvrtcFoldersOfTests();

// Whether this machine should have it: `./kiln test` says so when it has found
// it. A test that cannot open it then fails, and is skipped otherwise.
bool NvrtcIsDue();

// Leaves the running test: failed where NVRTC is expected, else skipped.
#define KILN_LEAVE_WITHOUT_NVRTC(status)                                    \
  do {                                                                      \
    const absl::Status kiln_nvrtc = (status);                               \
    if (!kiln_nvrtc.ok() && ::kiln::NvrtcIsDue())                           \
      FAIL() << "NVRTC is expected here and was not found: " << kiln_nvrtc; \
    if (!kiln_nvrtc.ok()) GTEST_SKIP() << kiln_nvrtc;                       \
  } while (false)

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_NVRTC_OF_TESTS_H_
