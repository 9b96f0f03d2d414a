#ifndef KILN_COMPILER_LOOP_ASSIGN_LAYOUTS_H_
#define KILN_COMPILER_LOOP_ASSIGN_LAYOUTS_H_

#include <vector>

#include "compiler/config/compile_options.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Decides which results of a graph's loops and steps lie channels-last in memory,
// whatever strides their metas have. One flag a value, by ValueId.
//
// Libraries run some convolutions faster on channels-last arrays. On CUDA those are the
// ones with two or three spatial dimensions, in a type that tensor cores take. Their
// inputs, results, weights and gradients become channels-last. In a graph with
// grouped convolutions none do, because the library's channels-last kernels for
// those are slow. On the CPU they are those that oneDNN computes as they lie
// (image_products.h): images of f32 convolutions become channels-last in a graph without
// their gradients and without joins of channels. Weights stay as they are, which oneDNN brings into a layout of its
// own in any case.
//
// A kernel that reads one layout and writes another accesses memory
// with large strides, so results of the same rank that loops compute from such an
// array, or from which they compute one, become channels-last too. A view has the
// layout of what it shows.
//
// Unchanged: inputs, constants, what an as_strided views, and values that nothing
// reads but the caller or a flatten. A graph in which copies between layouts would
// cost more than they save (price_layouts.h) is left as it is, like that of one 1x1
// convolution.
//
// Pure. Linear in nodes for each round. Rounds repeat until nothing changes; their
// number follows the longest chain against the order of the graph.
std::vector<bool> ChannelsLastResults(const Graph& graph,
                                      const ArtifactOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_ASSIGN_LAYOUTS_H_
