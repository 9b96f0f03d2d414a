#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PLAN_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PLAN_H_

// The schedule of a graph: which nests share a launch, how each kernel is mapped to
// threads and blocks, and where buffers lie. schedule/ makes it, codegen/ writes the code
// of each kernel from its step alone, and emit/ turns the rest into a LaunchPlan.

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "compiler/config/tuning_table.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/flash_kernel.h"
#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/library_call.h"

namespace kiln {

// Additional buffers of the plan that a kernel needs.
struct Workspace {
  // Bytes for the partial results of blocks that share an outer point: for each reduction
  // or scan, in the order of the body, one accumulator for each part and outer point.
  BufferId partials = kNoBuffer;
  // 32-bit counters: one for each group of blocks that share their outer points. A scan
  // has two and one for each block. They are zero before the kernel and after it.
  BufferId counters = kNoBuffer;
  friend bool operator==(const Workspace&, const Workspace&) = default;
};

struct PlannedKernel {
  LoopNest nest;  // fused; axes merged where every access allows
  KernelVariant variant;
  std::string label;  // "kiln_poi_fused_add_relu_0"
  Workspace workspace;
};

// The most arguments of a CUDA kernel: 4096 bytes of pointers and 64-bit integers.
// Source: CUDA C++ Programming Guide, "Function Parameters". (32,764 bytes are allowed
// only if compiler and driver are both 12.1 or later.)
inline constexpr size_t kMaxKernelArguments = 512;

// Kernels with different iteration spaces that share one launch. None touches a buffer
// that another one writes, so they may run in any order or at the same time.
struct CombinedKernel {
  std::vector<PlannedKernel> parts;  // at least two, without labels
  std::string label;                 // "kiln_for_fused_add_mul_0"
};

struct BufferPlacement {
  bool in_arena = false;
  // The number of a separate allocation, which is made when the first step that touches
  // it runs and freed after the last. Buffers with the same number share it. If one of
  // them is an input, it is the input's memory. -1: none.
  int own = -1;
  SymExpr offset_bytes = 0;  // in the arena
  SymExpr bytes = 0;
};

using PlannedStep =
    std::variant<PlannedKernel, CombinedKernel, FlashKernel, LibraryCall, Fill>;

// The kernels of nests that a step launches: itself, or its parts. Empty for a library
// call, a fill or a FlashKernel.
inline absl::Span<PlannedKernel> KernelsOf(PlannedStep& step) {
  if (auto* kernel = std::get_if<PlannedKernel>(&step)) return {kernel, 1};
  if (auto* combined = std::get_if<CombinedKernel>(&step)) {
    return absl::MakeSpan(combined->parts);
  }
  return {};
}
inline absl::Span<const PlannedKernel> KernelsOf(const PlannedStep& step) {
  return KernelsOf(const_cast<PlannedStep&>(step));
}

// Whether a step launches a kernel of ours.
inline bool IsLaunch(const PlannedStep& step) {
  return !KernelsOf(step).empty() || std::holds_alternative<FlashKernel>(step);
}

struct KernelPlan {
  std::string name;
  ShapeEnv shapes;
  std::vector<Buffer> buffers;              // as in the LoopProgram
  std::vector<BufferPlacement> placements;  // by BufferId
  std::vector<PlannedStep> steps;
  std::vector<ProgramOutput> outputs;
  std::vector<uint32_t> mutated_inputs;
  // The tuning keys that were looked up, one for each step and kernel that has a choice,
  // and the decision found; empty if there was none. So it is known which artifacts a
  // later decision makes out of date. Which keys are looked up depends on decisions under
  // keys that begin with kWayKey (proto/base/tuned_line.h), and on no other decisions.
  // Not in the plan's text.
  TuningTable tuned;
  // For people: for each contraction a line that says what computes it, and why
  // (choose_contraction.h). Not in the plan's text.
  std::vector<std::string> contractions;
  // See LoopProgram::tiny_products.
  std::vector<std::string> tiny_products;
  // See LoopProgram::client_words. Labels of kernels are made of them.
  std::vector<std::string> client_words;
  SymExpr arena_bytes = 0;
  int64_t peak_live_bytes = 0;  // with symbols at their hints
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_H_
