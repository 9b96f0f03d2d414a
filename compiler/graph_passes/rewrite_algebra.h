#ifndef KILN_COMPILER_GRAPH_PASSES_REWRITE_ALGEBRA_H_
#define KILN_COMPILER_GRAPH_PASSES_REWRITE_ALGEBRA_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Replaces nodes by cheaper ones that give the same bits:
//
//   a view that shows an earlier value of its chain again   that value
//   x * 1, x / 1, x - 0, x + -0.0, pow(x, 1), where(c, x, x) x
//   x + 0 of integers                                        x
//   pow(x, 2), (x, 3), (x, 0.5), (x, -0.5), (x, -1)          products, sqrt,
//                                          rsqrt, reciprocal, as eager mode
//   a conversion to the same dtype; of a lossless conversion nothing, or one
//   a sum over dimensions of size 1                          a view
//   a copy into the layout that is there                     x
//
// Not x + 0.0: that turns -0.0 into 0.0. A copy that leaves the graph stays,
// since the caller may write it.
//
// Expects a functional graph. Linear in nodes and in lengths of view chains.
absl::StatusOr<Changed> RewriteAlgebra(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_REWRITE_ALGEBRA_H_
