#ifndef KILN_COMPILER_GRAPH_PASSES_FOLD_CONSTANTS_H_
#define KILN_COMPILER_GRAPH_PASSES_FOLD_CONSTANTS_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Computes what is the same number everywhere: full, zeros, constants of one
// element, views of these, and arithmetic on them, whatever their sizes, which
// may be symbolic. The result is one aten.full. With one uniform side,
// x & true, x * 1 and their like are left to rewrite_algebra, as numbers:
// mul(x, full(2.0)) becomes mul(x, 2.0).
//
// Numbers are rounded as the operators would, at each step.
//
// Expects a functional graph. Linear.
absl::StatusOr<Changed> FoldConstants(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_FOLD_CONSTANTS_H_
