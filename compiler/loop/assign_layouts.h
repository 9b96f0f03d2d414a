#ifndef KILN_COMPILER_LOOP_ASSIGN_LAYOUTS_H_
#define KILN_COMPILER_LOOP_ASSIGN_LAYOUTS_H_

#include <vector>

#include "compiler/config/compile_options.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Which results of a graph's loops and steps lie channels-last in memory,
// whatever strides their metas have; by ValueId. Those that a convolution which
// the library runs faster so computes (then it reads such arrays, too) or reads,
// its weights and their gradients: on CUDA, of two or three spatial dimensions, in
// a type that tensor cores take, in a graph without grouped ones, for which the
// library's channels-last kernels are the slow ones. And, since a kernel
// between two layouts reads or writes across memory, the results of the same rank
// that loops make of them or they of those. Views show what lies behind them.
//
// Left as they are: inputs, constants, what an as_strided looks into, and what
// leaves for the caller or is flattened and is read by nothing else.
//
// Pure. Linear in nodes but for the rounds until nothing changes, which follow
// the longest chain against the order of the graph.
std::vector<bool> ChannelsLastResults(const Graph& graph,
                                      const ArtifactOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_ASSIGN_LAYOUTS_H_
