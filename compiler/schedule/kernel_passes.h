#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_

// Splits a fused nest into passes over its reduced axes. A reduction that needs the
// result of another one belongs to a later pass. Softmax has three passes: for the
// maximum, for the sum and for the division.
//
// If several passes need a value at reduced points, it is either kept from the first of
// them or computed again in each. The caller chooses.

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

struct KernelPass {
  std::vector<ScalarId>
      before;  // computed once per outer point, before the pass
  std::vector<ScalarId>
      inside;  // computed at each reduced point, in this order
  std::vector<ScalarId>
      keeps;  // nodes of `inside` that are kept for a later pass
  std::vector<ScalarId>
      kept;  // nodes kept by an earlier pass that this one reads
  std::vector<ScalarId> reduces;  // kReduce nodes that this pass finishes
  std::vector<uint32_t> stores;   // done at each reduced point
};

struct KernelPasses {
  // Empty for a nest without reduced axes.
  std::vector<KernelPass> passes;
  // Computed and stored once per outer point, after all passes.
  std::vector<ScalarId> last;
  std::vector<uint32_t> last_stores;
};

// Plans the passes. All stores at reduced points are in the last pass, so that no load
// comes after a store that overwrites its buffer in place.
//
//   keep  for each node, whether its value is kept for later passes; empty: no value is
//         kept
//
// Pure.
KernelPasses PlanPasses(const LoopNest& nest, const NestFacts& facts,
                        const std::vector<bool>& keep);

// Whether the node is a load without a mask and without a loaded index, which can be done
// before the other values of its group.
bool IsPlainLoad(const LoopNest& nest, const NestFacts& facts, ScalarId id);

// The loads that a thread issues together for several groups, before it uses the first
// (`unroll` of a variant): the plain ones of `nodes` that are not at hand yet.
std::vector<ScalarId> LoadsTogether(
    const LoopNest& nest, const NestFacts& facts,
    const std::vector<ScalarId>& nodes,
    absl::FunctionRef<bool(ScalarId)> is_at_hand);

// Whether the steps of several groups are written out one after the other. They are a
// loop if a step stores and no load can be issued early: loads cannot move before earlier
// stores, so code that is written out would not be faster.
bool AreWrittenOut(const LoopNest& nest, const NestFacts& facts,
                   const std::vector<ScalarId>& nodes,
                   absl::FunctionRef<bool(ScalarId)> is_at_hand, bool stores);

// For each node, whether CudaRows keeps its value because several passes need it. Kept
// are loads without a mask and without a loaded index and, with `costly`, operations of
// tens of instructions (IsCostly, scalar_expr.h). Pure.
std::vector<bool> ValuesToHold(const LoopNest& nest, const NestFacts& facts,
                               bool costly);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_
