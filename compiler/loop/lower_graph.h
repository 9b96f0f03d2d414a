#ifndef KILN_COMPILER_LOOP_LOWER_GRAPH_H_
#define KILN_COMPILER_LOOP_LOWER_GRAPH_H_

#include "absl/status/statusor.h"
#include "compiler/config/compile_options.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// The graph as loops: one nest a node of Handling::kLower (a few for scatters
// and wide concatenations), a contraction (a backward convolution: one a gradient)
// or an order a node of kStep, nothing for kView, whose results are index
// arithmetic on their input's buffer.
//
// Decides: the strides of results (those of assign_layouts.h; else the meta's, of
// an output those that the caller must see), which operands of a contraction are copied because no
// library could read them as they lie.
// Leaves alone: which nests share a kernel, where buffers lie.
//
// Sizes that guards have fixed are numbers here (compiler/graph/fix_symbols.h).
// An input that the graph mutates is written by a nest at the end.
//
// Errors: UNSUPPORTED_OP names the operator that has no lowering; one of
// kDecompose or kMutate is such, since the graph pipeline has replaced it.
//
// Of the options: what a sum may round stands in its contraction;
// emulate_precision_casts rounds every value of a half type where an operator
// ends, also where the next one takes it without a store; deterministic
// gives scatters on CUDA a form whose result does not hang on the hardware's order
// (scatter_updates.h).
//
// Pure. Linear in nodes.
absl::StatusOr<LoopProgram> LowerGraph(const Graph& given,
                                       const ArtifactOptions& options = {});

// Whether an operator has a lowering (kView and kStep have). For the test
// that holds the tables together.
bool HasLowering(const OpDef& op);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOWER_GRAPH_H_
