#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_

// Splits a fused nest into passes over its reduced axes. A reduction whose input
// needs the result of another one belongs to a later pass: softmax has three, for
// the maximum, the sum and the division.
//
// A value at reduced points that several passes need is either kept from the first
// of them or computed again in each. The caller chooses.

#include <cstdint>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

struct KernelPass {
  std::vector<ScalarId> before;   // once an outer point, before the pass
  std::vector<ScalarId> inside;   // at each reduced point, in order
  std::vector<ScalarId> keeps;    // of `inside`: a later pass reads them
  std::vector<ScalarId> kept;     // read here, computed by an earlier pass
  std::vector<ScalarId> reduces;  // kReduce nodes that this pass finishes
  std::vector<uint32_t> stores;   // at each reduced point
};

struct KernelPasses {
  // Empty for a nest without reduced axes.
  std::vector<KernelPass> passes;
  // Once an outer point, after all passes.
  std::vector<ScalarId> last;
  std::vector<uint32_t> last_stores;
};

// Plans the passes. All stores at reduced points are in the last one, so that no load
// comes after a store that overwrites its buffer in place.
//
//   keep  a flag for each node: its value is kept for later passes. Empty: no
//         value is kept.
KernelPasses PlanPasses(const LoopNest& nest, const NestFacts& facts,
                        const std::vector<bool>& keep);

// The values that CudaRows keeps, of those that several passes need: loads without
// a mask and without a loaded index and, with `costly`, results of operations of
// tens of instructions (IsCostly, scalar_expr.h). A flag for each node.
std::vector<bool> ValuesToHold(const LoopNest& nest, const NestFacts& facts,
                               bool costly);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_
