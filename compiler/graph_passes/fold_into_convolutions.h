#ifndef KILN_COMPILER_GRAPH_PASSES_FOLD_INTO_CONVOLUTIONS_H_
#define KILN_COMPILER_GRAPH_PASSES_FOLD_INTO_CONVOLUTIONS_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Moves arithmetic on the channels of a convolution's result into its weights and
// bias. With one number a channel, or one for all:
//
//   convolution(x, w, b) * s + t    becomes    convolution(x, w * s, b * s + t)
//
// So a batch norm with running statistics is folded, which is four such operators
// when it is taken apart, and so are add, sub, mul and div by a tensor. The weights
// may change from call to call: the new ones are computed in each.
//
// Folds on the CPU, where a bias, an array that is added and a relu behind that are
// computed while oneDNN's result is in the cache, in f32 and f64; on CUDA half types,
// conversions to f32 and back included, where a relu follows, perhaps behind an array
// that is added, since cuDNN computes all of that while it writes. Nothing but the next
// operator reads the result of each, and it pays: what comes of it goes to memory for a
// library call, a pooling or the caller, so that a pass over it is saved, and it has at
// least twice as many elements
// as the weights that are scaled. Sums are rounded otherwise than before.
//
// Each operator that is folded counts as a pattern. Source: Inductor's
// binary_folding and fuse_conv_bn. Expects composites taken apart. Linear.
absl::StatusOr<Changed> FoldIntoConvolutions(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_FOLD_INTO_CONVOLUTIONS_H_
