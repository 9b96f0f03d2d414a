#ifndef KILN_RUNTIME_GRAPH_TREE_INVALID_OUTPUT_H_
#define KILN_RUNTIME_GRAPH_TREE_INVALID_OUTPUT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/graph_tree/recorder.h"

namespace kiln::graph_tree {

// What an access to an output says whose memory the next iteration has taken.
inline std::string InvalidOutputText(const Function& function, int output) {
  const auto& traces = function.output_traces;
  const bool known =
      output < static_cast<int>(traces.size()) && !traces[output].empty();
  return absl::StrCat(
      "Error: accessing tensor output of CUDAGraphs that has been overwritten "
      "by a subsequent run. Stack trace: ",
      known ? traces[output] : "[Could not find stack trace]",
      ". To prevent overwriting, clone the tensor outside of torch.compile() "
      "or call torch.compiler.cudagraph_mark_step_begin() before each model "
      "invocation.");
}

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_INVALID_OUTPUT_H_
