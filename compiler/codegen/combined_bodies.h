#ifndef KILN_COMPILER_CODEGEN_COMBINED_BODIES_H_
#define KILN_COMPILER_CODEGEN_COMBINED_BODIES_H_

// Finds the distinct bodies of a combined kernel. Parts that differ only in their buffers
// and in the size of their first axis share a body, which is then compiled once. For
// example, an optimizer has one such part for each parameter.

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// A part's arguments, in the order of its body's parameters.
struct BodyCall {
  std::vector<BufferId> buffers;
  std::vector<SymExpr> scalars;
  SymExpr first_extent = 1;  // 1 without axes
};

struct CombinedBody {
  PlannedKernel kernel;  // the extent of its first axis is symbol `size`
  ShapeEnv shapes;       // the plan's symbols, then that one
  NestFacts facts;       // the params name the first call's buffers
  std::vector<bool>
      written;        // for each buffer of the plan: whether it is stored to
  uint32_t size = 0;  // number of the symbol
  std::vector<BodyCall> calls;
};

// The bodies in order of first appearance. Parts must draw no random numbers.
//
// Errors: of FactsOf. Pure. Linear in the bodies of the parts.
absl::StatusOr<std::vector<CombinedBody>> BodiesOf(
    const CombinedKernel& combined, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_COMBINED_BODIES_H_
