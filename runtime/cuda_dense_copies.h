#ifndef KILN_RUNTIME_CUDA_DENSE_COPIES_H_
#define KILN_RUNTIME_CUDA_DENSE_COPIES_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "runtime/device.h"

namespace kiln {

// The runtime's kernel for many copies of runs of bytes in one launch, such as of
// the inputs of a device graph. PTX, so that it runs on every GPU from sm_70 on; the
// driver compiles it when it is first needed.
//
// A block copies a piece of one run, 16 or 4 bytes at a time where both addresses
// allow that.
inline constexpr unsigned kDenseCopiesThreads = 256;
inline constexpr int64_t kDenseCopiesPiece = int64_t{16} << 10;

// A module of two kernels, for few runs and for many: a launch costs by the size
// of its argument.
std::string DenseCopiesPtx();

// The argument, by value. 4096 bytes is the most that a kernel takes (CUDA C++
// Programming Guide, "__global__ Function Parameters").
template <int kMost>
struct DenseCopiesArgument {
  struct Run {
    const void* from = nullptr;
    void* to = nullptr;
    int64_t bytes = 0;
    int64_t first_block = 0;
  };
  int64_t count = 0;
  Run runs[kMost];
};
inline constexpr int kFewRuns = 8;
inline constexpr int kManyRuns = 127;
using FewDenseCopies = DenseCopiesArgument<kFewRuns>;
using ManyDenseCopies = DenseCopiesArgument<kManyRuns>;
static_assert(sizeof(ManyDenseCopies) <= 4096);
inline constexpr char kFewDenseCopiesName[] = "kiln_dense_copies_8";
inline constexpr char kManyDenseCopiesName[] = "kiln_dense_copies_127";

// Fills `argument` with the first of `copies` that fit; how many there are in it and
// how many blocks they take. Runs of no bytes take none.
struct DenseCopiesLaunch {
  size_t taken = 0;
  int64_t blocks = 0;
};
template <int kMost>
DenseCopiesLaunch Fill(DenseCopiesArgument<kMost>& argument,
                       absl::Span<const DenseCopy> copies) {
  DenseCopiesLaunch launch;
  for (; launch.taken < copies.size() && argument.count < kMost;
       ++launch.taken) {
    const DenseCopy& copy = copies[launch.taken];
    if (copy.bytes == 0) continue;
    argument.runs[argument.count++] = {copy.from, copy.to, copy.bytes,
                                       launch.blocks};
    launch.blocks += (copy.bytes + kDenseCopiesPiece - 1) / kDenseCopiesPiece;
  }
  return launch;
}

}  // namespace kiln

#endif  // KILN_RUNTIME_CUDA_DENSE_COPIES_H_
