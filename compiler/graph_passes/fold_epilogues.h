#ifndef KILN_COMPILER_GRAPH_PASSES_FOLD_EPILOGUES_H_
#define KILN_COMPILER_GRAPH_PASSES_FOLD_EPILOGUES_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Gives a library call the work that follows it, where the library takes it
// along and nobody else reads what lies between:
//
//   add(mm(a, b), bias)              addmm, bias a row
//   add(convolution(x, w), bias)     convolution with it, bias [C, 1, ...]; CPU
//   relu of mm, addmm, linear, convolution                               CPU
//   gelu (tanh form) of mm, addmm, linear      CPU; CUDA for bf16 and f16
//   gelu (tanh form) of convolution                                      CPU
//
// Views between them move behind. The result is rounded to a half type once,
// after the last of them, where eager mode rounds after each; so nothing is done
// with emulate_precision_casts.
//
// What stays as it is, and why: relu on CUDA, since cuBLASLt's max(x, 0) loses
// a NaN; f32 gelu there, whose tanh is good to 2^-11; the exact gelu, that no
// library has; anything after a convolution on CUDA, for which cuDNN's functions
// need a second call too.
//
// Before decomposition, which takes gelu apart. Linear in nodes. Each library call
// that takes work along is a pattern.
absl::StatusOr<Changed> FoldEpilogues(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_FOLD_EPILOGUES_H_
