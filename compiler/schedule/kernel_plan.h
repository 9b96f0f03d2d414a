#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PLAN_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PLAN_H_

// Which nests share a launch, how each kernel is cut up, where buffers lie.
// schedule/ makes it, codegen/ writes a kernel from each PlannedKernel or
// CombinedKernel alone, emit/ turns the rest into a LaunchPlan.

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

// Memory that a kernel needs beside what its nest names, as buffers of the plan.
struct Workspace {
  // Partial results of the blocks that share an outer point, as bytes: for each
  // reduction or scan, in the order of the body, one accumulator for each part and
  // outer point.
  BufferId partials = kNoBuffer;
  // 32-bit counters: one for each group of blocks that share their outer points;
  // of a scan two, and one for each block. Zero before the kernel and after it.
  BufferId counters = kNoBuffer;
  friend bool operator==(const Workspace&, const Workspace&) = default;
};

struct PlannedKernel {
  LoopNest nest;  // fused; axes merged where every access allows
  KernelVariant variant;
  std::string label;  // "kiln_poi_fused_add_relu_0"
  Workspace workspace;
};

// Arguments that a CUDA kernel may have: 4096 bytes of pointers and 64-bit
// integers. Source: CUDA C++ Programming Guide, "Function Parameters"; 32,764
// bytes only where both compiler and driver are of 12.1 or later.
inline constexpr size_t kMaxKernelArguments = 512;

// Kernels over spaces of their own that share one launch. None touches what
// another one writes: they may run in any order, or at once.
struct CombinedKernel {
  std::vector<PlannedKernel> parts;  // two or more; without labels
  std::string label;                 // "kiln_for_fused_add_mul_0"
};

struct BufferPlacement {
  bool in_arena = false;
  // The number of its own memory, which is allocated when the first step that touches
  // it runs and freed after the last. Buffers with the same number share that memory;
  // if one of them is an input, it is the input's. -1: none.
  int own = -1;
  SymExpr offset_bytes = 0;  // in the arena
  SymExpr bytes = 0;
};

using PlannedStep =
    std::variant<PlannedKernel, CombinedKernel, FlashKernel, LibraryCall, Fill>;

// The nests that a step launches: its own, or its parts'; none of a call, a fill or
// a FlashKernel.
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
  std::vector<BufferPlacement> placements;  // one a buffer
  std::vector<PlannedStep> steps;
  std::vector<ProgramOutput> outputs;
  std::vector<uint32_t> mutated_inputs;
  // The tuning decisions that were looked up: the key of each step and kernel that has
  // a choice, and the decision in force, which is empty if there was none. So a later
  // decision shows which artifacts it makes out of date. Which keys there are may depend
  // on decisions under keys that begin with kWayKey (proto/base/tuned_line.h), and on no
  // others. Not in the plan's text.
  TuningTable tuned;
  // For people: who computes each contraction, and why, a line each
  // (choose_contraction.h). Not in the plan's text.
  std::vector<std::string> contractions;
  // LoopProgram.tiny_products.
  std::vector<std::string> tiny_products;
  // LoopProgram.client_words: kernels' labels are made of them.
  std::vector<std::string> client_words;
  SymExpr arena_bytes = 0;
  int64_t peak_live_bytes = 0;  // at the hints
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_H_
