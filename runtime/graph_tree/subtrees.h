#ifndef KILN_RUNTIME_GRAPH_TREE_SUBTREES_H_
#define KILN_RUNTIME_GRAPH_TREE_SUBTREES_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/graph_tree/node.h"

// Recordings that leave a tree, with all that is behind them.

namespace kiln::graph_tree {

using Nodes = std::vector<std::unique_ptr<Node>>;

Nodes TakeNodes(Children& children);

// Those of some functions, wherever below `roots` they are; what was decided for
// the functions is forgotten. `first`: of `roots`.
Nodes TakeNodesOf(absl::Span<const int> functions, Children& roots,
                  Followers& first);

// One after the other: a path may be longer than a stack is deep.
void DropNodes(Nodes nodes);

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_SUBTREES_H_
