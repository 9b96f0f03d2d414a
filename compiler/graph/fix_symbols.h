#ifndef KILN_COMPILER_GRAPH_FIX_SYMBOLS_H_
#define KILN_COMPILER_GRAPH_FIX_SYMBOLS_H_

#include <optional>

#include "compiler/graph/graph.h"

namespace kiln {

// What guards of equality say, put into expressions: a guard that s0 is 1 makes
// s0 the number 1, one that s1 is s0 makes s1 s0, and a size that is known to
// be 1 as a whole (s0 - s0 // 2) is the number. Until then all are written as
// they came, and nobody who looks for a size of 1 or for two equal sizes by
// their form would find them.

// `graph` with all sizes, strides and offsets written so; empty when it has no
// symbols. For what is lowered: what callers hand in is described by the graph
// itself.
std::optional<Graph> FixSymbols(const Graph& graph);

// The integers among `args` that are fixed, as numbers. Says whether any was.
bool FixArguments(const ShapeEnv& shapes, Arguments& args);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_FIX_SYMBOLS_H_
