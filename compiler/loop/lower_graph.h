#ifndef KILN_COMPILER_LOOP_LOWER_GRAPH_H_
#define KILN_COMPILER_LOOP_LOWER_GRAPH_H_

#include "absl/status/statusor.h"
#include "compiler/config/compile_options.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Lowers the graph to loops. A node of Handling::kLower becomes a nest; scatters, sorts
// and wide concatenations become several. A node of kStep becomes a contraction (a
// backward convolution becomes one for each gradient), an attention or an order. A node
// of kView becomes nothing: its results are index arithmetic on the input's buffer.
//
// Decides the strides of results: an output has those that the caller expects, other
// results those of assign_layouts.h or of their metas. Also decides which operands of a
// contraction are copied because no library could read them in place. Does not decide
// which nests share a kernel or where buffers lie.
//
// Sizes that guards have fixed are constants here (compiler/graph/fix_symbols.h). If the
// graph mutates an input, a nest at the end writes it.
//
// Errors: UNSUPPORTED_OP names an operator that has no lowering. Operators of kDecompose
// and kMutate have none, since the graph pipeline replaces them.
//
// Options: allowed roundings of sums are stored in each contraction. With
// emulate_precision_casts every result of a half type is rounded, even if the next
// operator uses it without a store. With deterministic, scatters on CUDA get a form
// whose result does not depend on the order in which the hardware runs them
// (scatter_updates.h).
//
// Pure. Linear in nodes.
absl::StatusOr<LoopProgram> LowerGraph(const Graph& given,
                                       const ArtifactOptions& options = {});

// Whether an operator has a lowering (those of kView and kStep do). For the test that
// compares the tables.
bool HasLowering(const OpDef& op);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOWER_GRAPH_H_
