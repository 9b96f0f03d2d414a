#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_

// Orders a fused nest for one walk over its outer points: reductions whose
// input needs the result of another reduction come a pass over the reduced
// axes later (softmax: the maximum, the sum, the division).
//
// A value over the reduced axes that several passes need is computed again in
// each, or kept from the pass that computed it first. The caller says which.

#include <cstdint>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

struct KernelPass {
  std::vector<ScalarId> before;   // free of reduced axes, to be computed first
  std::vector<ScalarId> inside;   // at each reduced point, in order
  std::vector<ScalarId> keeps;    // of `inside`: a later pass reads them
  std::vector<ScalarId> kept;     // read here, computed by an earlier pass
  std::vector<ScalarId> reduces;  // kReduce nodes that this pass finishes
  std::vector<uint32_t> stores;   // at each reduced point
};

struct KernelPasses {
  // Empty for a nest without reduced axes.
  std::vector<KernelPass> passes;
  // After all passes, once an outer point.
  std::vector<ScalarId> last;
  std::vector<uint32_t> last_stores;
};

// All stores at reduced points stand in the last pass, so that no load of a
// buffer that a store overwrites in place comes after it.
//
//   keep  one flag a node: whether its value is kept for later passes; empty:
//         no value is
KernelPasses PlanPasses(const LoopNest& nest, const NestFacts& facts,
                        const std::vector<bool>& keep);

// Values that CudaRows keeps between passes, of those that several passes need:
// everything loaded without a mask and without a loaded index, and with `costly`
// also the results of operations that cost tens of instructions (scalar_expr.h,
// IsCostly). One flag a node.
std::vector<bool> ValuesToHold(const LoopNest& nest, const NestFacts& facts,
                               bool costly);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PASSES_H_
