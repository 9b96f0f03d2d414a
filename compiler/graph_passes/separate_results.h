#ifndef KILN_COMPILER_GRAPH_PASSES_SEPARATE_RESULTS_H_
#define KILN_COMPILER_GRAPH_PASSES_SEPARATE_RESULTS_H_

// Which results of a graph share memory is part of what it means: a caller may
// write to one of them. The passes go by values, and make equal values one
// (merge_common_nodes, a roll by 0 that is its operand). So what a graph says of
// memory is noted before the first of them and restored after the last.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// The memory that an output shows.
struct ResultMemory {
  // Outputs of equal numbers share their memory. Below the number of inputs: it
  // is that input's, or what that input's memory holds at the end.
  uint32_t memory = 0;
  // Whether the output is a view of what was made there.
  bool view = false;
};

// By output; nothing is said of those that are no tensor.
using ResultMemories = std::vector<ResultMemory>;

// As the graph says it: a view has the memory of what it shows, what an
// in-place operator returns has that of its first argument, all else is its
// own. Linear, times the length of view chains.
ResultMemories MemoriesOfResults(const Graph& graph);

// Gives each output the memory that it had when `due` was noted: where it now
// shows an input's or another output's, and did not then, it gets a copy.
// Outputs that were one memory stay one. A constant needs no copy: lowering
// gives away none of them.
//
// Expects a functional graph with the outputs and inputs of then. Linear, times
// the length of view chains.
absl::StatusOr<Changed> SeparateResults(Graph& graph,
                                        const ResultMemories& due);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_SEPARATE_RESULTS_H_
