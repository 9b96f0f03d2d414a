#ifndef KILN_COMPILER_GRAPH_PASSES_PAD_PRODUCTS_H_
#define KILN_COMPILER_GRAPH_PASSES_PAD_PRODUCTS_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Under option force_shape_pad: pads the operands of mm, bmm and addmm on CUDA with
// zeros up to multiples of 8 elements of a half type, 4 of f32, and crops the result.
// Sizes of 1, 0 and unknown ones stay. Expects composites taken apart. Linear.
//
// Source: Inductor's pad_mm, when it is told not to ask whether that pays.
absl::StatusOr<Changed> PadProducts(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_PAD_PRODUCTS_H_
