#ifndef KILN_COMPILER_GRAPH_SLICE_RULES_H_
#define KILN_COMPILER_GRAPH_SLICE_RULES_H_

#include "absl/status/statusor.h"
#include "compiler/graph/argument.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// What a slice of one dimension takes: start, start + step, ... `length` times.
struct SliceBounds {
  SymExpr start;
  SymExpr length;
  SymExpr step;
};

// Python's meaning of start:end:step on a dimension of `size`: negative bounds
// count from its end, and both are clamped to it. NoneArgument is left out;
// INT64_MAX as end means to the end. MALFORMED_GRAPH for a step below 1.
absl::StatusOr<SliceBounds> BoundsOfSlice(const Argument& start,
                                          const Argument& end,
                                          const Argument& step,
                                          const SymExpr& size,
                                          ShapeEnv& shapes);

// `index` in [-size, size) brought to [0, size). MALFORMED_GRAPH outside.
absl::StatusOr<SymExpr> WrapIndex(const SymExpr& index, const SymExpr& size,
                                  ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_SLICE_RULES_H_
