#ifndef KILN_COMPILER_SCHEDULE_FLASH_KERNEL_H_
#define KILN_COMPILER_SCHEDULE_FLASH_KERNEL_H_

// Attention as kernels of ours ("flash": softmax goes along with the walk over keys,
// so that scores are never in memory). The forward is one kernel. The backward is
// two, each of which computes the weights again, so that no sum depends on an order
// of threads: the gradient of queries, then those of keys and values.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/loop/attention.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

inline constexpr BufferId kNoBuffer = ~0u;
// The most rows that a block has.
inline constexpr int64_t kMostFlashRows = 128;

struct FlashKernel {
  enum class Part : uint8_t { kForward, kQueryGrad, kKeyGrads };

  Part part = Part::kForward;
  Attention attention;  // of which this is a part
  KernelVariant variant;
  std::string label;  // "kiln_tem_fused_attention_0"
  // Of a backward, f32: for each query its logsumexp times log2(e), and the sum of
  // the products of its gradient and its result. The first part writes it.
  BufferId sums = kNoBuffer;

  bool Touches(size_t place) const;  // an array that there is
  bool Writes(size_t place) const;
  bool WritesSums() const { return part == Part::kQueryGrad; }
};

// "forward", "query_grad" or "key_grads".
absl::string_view PartName(FlashKernel::Part part);

// The kernels of an attention, in order, not mapped yet.
std::vector<FlashKernel> FlashKernelsOf(const Attention& attention);

// How the kernel is mapped: by the heads' sizes, so that it fits the registers and
// the shared memory of the target.
CudaFlash ChooseFlash(const FlashKernel& kernel, const Target& target);

// Dynamic shared memory of a block.
int64_t SharedBytesOf(const FlashKernel& kernel, const CudaFlash& variant);

// What a block does not reach of `sums` lies behind it: its queries are in whole
// blocks of the largest kind.
SymExpr PaddedQueries(const Attention& attention);

// Calls visit(view, writes) for each array that the kernel touches, in the order of
// its parameters; `sums` comes behind them.
template <typename Visit>
void VisitArrays(const FlashKernel& kernel, Visit visit) {
  for (size_t place = 0; place < Attention::kPlaces; ++place) {
    if (kernel.Touches(place))
      visit(*kernel.attention.arrays[place], kernel.Writes(place));
  }
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FLASH_KERNEL_H_
