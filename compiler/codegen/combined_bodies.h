#ifndef KILN_COMPILER_CODEGEN_COMBINED_BODIES_H_
#define KILN_COMPILER_CODEGEN_COMBINED_BODIES_H_

// A combined kernel as a few bodies and who calls them with what: parts that
// are equal but for their buffers and the size of their first axis (one for
// each parameter of an optimizer) share a body, so that a compiler reads it
// once.

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
  PlannedKernel kernel;       // the size of its first axis is a symbol: `size`
  ShapeEnv shapes;            // the plan's, and that symbol behind them
  NestFacts facts;            // its params name the first call's buffers
  std::vector<bool> written;  // by its stores: one a buffer of the plan
  uint32_t size = 0;
  std::vector<BodyCall> calls;
};

// In order of first appearance. Parts draw no random numbers.
//
// Errors: of FactsOf. Pure. Linear in the bodies of the parts.
absl::StatusOr<std::vector<CombinedBody>> BodiesOf(
    const CombinedKernel& combined, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_COMBINED_BODIES_H_
