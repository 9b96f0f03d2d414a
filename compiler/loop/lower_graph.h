#ifndef KILN_COMPILER_LOOP_LOWER_GRAPH_H_
#define KILN_COMPILER_LOOP_LOWER_GRAPH_H_

#include "absl/status/statusor.h"
#include "compiler/config/compile_options.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Lowers the graph to loops. A node of Handling::kLower becomes one nest; scatters and
// wide concatenations become a few. A node of kStep becomes a contraction (a backward
// convolution: one for each gradient) or an order. A node of kView becomes nothing:
// its results are index arithmetic on the input's buffer.
//
// Decides the strides of results (those of assign_layouts.h, else the meta's; an
// output has those that the caller expects), and which operands of a contraction are
// copied because no library could read them in place. Does not decide which nests
// share a kernel or where buffers lie.
//
// Sizes that guards have fixed are numbers here (compiler/graph/fix_symbols.h).
// An input that the graph mutates is written by a nest at the end.
//
// Errors: UNSUPPORTED_OP names an operator that has no lowering. Operators of
// kDecompose and kMutate have none, since the graph pipeline replaces them.
//
// Options: a contraction keeps what its sums may round. emulate_precision_casts rounds
// every result of an operator that has a half type, even if the next operator takes it
// without a store. deterministic gives scatters on CUDA a form whose result does not
// depend on the order in which the hardware runs them (scatter_updates.h).
//
// Pure. Linear in nodes.
absl::StatusOr<LoopProgram> LowerGraph(const Graph& given,
                                       const ArtifactOptions& options = {});

// Whether an operator has a lowering (those of kView and kStep have). For the test
// that compares the tables.
bool HasLowering(const OpDef& op);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOWER_GRAPH_H_
