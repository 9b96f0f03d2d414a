#ifndef KILN_COMPILER_GRAPH_PASSES_SCATTER_UPON_CONST_H_
#define KILN_COMPILER_GRAPH_PASSES_SCATTER_UPON_CONST_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Turns a scatter of one number into a tensor of one number into a choice:
//
//   scatter.value(full(sizes, b), dim, index, v)
//     becomes where(iota along dim == index, v, b)
//
// where the index has size 1 along `dim` and the full sizes elsewhere. Nothing
// is filled, nothing read back, and the choice fuses with what uses it. An
// index out of range, an error in eager mode, chooses the background.
//
// Each is a pattern of its own, however many share a base.
//
// Source: Inductor's pass of that name. Expects folded constants. Linear.
absl::StatusOr<Changed> ScatterUponConst(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_SCATTER_UPON_CONST_H_
