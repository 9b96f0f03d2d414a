#ifndef KILN_COMPILER_PASS_GRAPH_INSPECTION_H_
#define KILN_COMPILER_PASS_GRAPH_INSPECTION_H_

#include "compiler/graph/graph_text.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Graphs are printed as graph_text.h and verified as graph_verifier.h say, and
// counted in nodes.
inline constexpr IrInspection<Graph> kGraphInspection = {
    PrintGraph, VerifyGraph, [](const Graph& graph) {
      return static_cast<int64_t>(graph.nodes().size());
    }};

}  // namespace kiln

#endif  // KILN_COMPILER_PASS_GRAPH_INSPECTION_H_
