#ifndef KILN_TESTS_RUNTIME_FAKE_CUDA_KERNELS_H_
#define KILN_TESTS_RUNTIME_FAKE_CUDA_KERNELS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/cuda_copy_kernel.h"
#include "runtime/cuda_dense_copies.h"
#include "runtime/cuda_driver.h"

// What the kernels do that fake_cuda_driver.cc can launch.

namespace kiln {

inline void* Host(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

inline void StridedCopy(const StridedCopyArgument& c) {
  for (int64_t i = 0; i < c.count; ++i) {
    int64_t rest = i, from = 0, to = 0;
    for (int dim = StridedCopyArgument::kRank - 1; dim >= 0; --dim) {
      from += rest % c.sizes[dim] * c.from_strides[dim];
      to += rest % c.sizes[dim] * c.to_strides[dim];
      rest /= c.sizes[dim];
    }
    std::memcpy(static_cast<char*>(c.to) + to * c.element_bytes,
                static_cast<const char*>(c.from) + from * c.element_bytes,
                c.element_bytes);
  }
}

// As the kernel does: each block its piece.
template <typename Argument>
void DenseCopies(const Argument& argument, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t run = argument.count - 1;
    while (argument.runs[run].first_block > block) --run;
    const auto& [from, to, bytes, first] = argument.runs[run];
    const int64_t at = (block - first) * kDenseCopiesPiece;
    if (at >= bytes) std::abort();
    std::memcpy(static_cast<char*>(to) + at,
                static_cast<const char*>(from) + at,
                std::min(bytes - at, kDenseCopiesPiece));
  }
}

inline void TestAdd(const std::vector<uint64_t>& arguments) {
  const float* const from = static_cast<const float*>(Host(arguments[0]));
  float* const to = static_cast<float*>(Host(arguments[1]));
  const int64_t count = static_cast<int64_t>(arguments[2]);
  const int64_t term = static_cast<int64_t>(arguments[3]);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] + term;
}

// Adds all arguments before the last to the number whose address that is.
inline void TestArguments(const std::vector<uint64_t>& arguments) {
  if (arguments.empty()) return;
  auto* const out = static_cast<int64_t*>(Host(arguments.back()));
  for (const uint64_t argument : arguments)
    *out += static_cast<int64_t>(argument);
  *out -= static_cast<int64_t>(arguments.back());
}

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_FAKE_CUDA_KERNELS_H_
