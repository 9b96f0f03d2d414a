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
#include "compiler/loop/loop_nest.h"

namespace kiln {

// How a kernel's iteration space is dealt out.
enum class Mapping : uint8_t {
  kPointwise,  // all axes flattened to one; neighbours on the last axis
  kTile2d,  // two axes in square tiles: one is contiguous for some accesses, the other for the rest
  kRow,  // reduction over contiguous elements: a block (or warp, or part of one) a row
  kColumn,  // reduction whose neighbours are non-reduction elements: threads side by side on those
  kSerial,  // one thread an outer point, reduction axes in a plain loop: small or irregular (scans)
};

struct KernelTiling {
  Mapping mapping = Mapping::kPointwise;
  int vector_width = 1;    // elements an access on the contiguous axis
  int threads = 256;       // a block (CUDA)
  int rows_per_block = 1;  // kRow, kColumn (CUDA)
  bool persistent =
      false;  // kRow: the row is held in registers between its passes
  int elements_per_thread = 1;
  // kRow (CPU): vectors of a row reduced side by side; 0: the writer's choice.
  int accumulators = 0;
  int tile_axis =
      -1;  // kTile2d: the second tiled axis (the first is the last axis)
  friend bool operator==(const KernelTiling&, const KernelTiling&) = default;
};

struct PlannedKernel {
  LoopNest nest;  // fused; axes merged where every access allows
  KernelTiling tiling;
  std::string label;  // "kiln_poi_fused_add_relu_0"
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
  // Memory of its own, allocated when the first step that touches it runs and
  // given back after the last. Buffers of one number share it in place; -1:
  // none.
  int own = -1;
  SymExpr offset_bytes = 0;  // in the arena
  SymExpr bytes = 0;
};

using PlannedStep =
    std::variant<PlannedKernel, CombinedKernel, ExternCall, Fill>;

// What a step launches: itself, or its parts; nothing of a call or a fill.
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

struct KernelPlan {
  std::string name;
  ShapeEnv shapes;
  std::vector<Buffer> buffers;              // as in the LoopProgram
  std::vector<BufferPlacement> placements;  // one a buffer
  std::vector<PlannedStep> steps;
  std::vector<ProgramOutput> outputs;
  std::vector<uint32_t> mutated_inputs;
  SymExpr arena_bytes = 0;
  int64_t peak_live_bytes = 0;  // at the hints
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_H_
