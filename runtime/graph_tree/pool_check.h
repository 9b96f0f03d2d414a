#ifndef KILN_RUNTIME_GRAPH_TREE_POOL_CHECK_H_
#define KILN_RUNTIME_GRAPH_TREE_POOL_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/graph_tree/path.h"
#include "runtime/graph_tree/pool.h"

namespace kiln::graph_tree {

// OK when the pool's allocated blocks are the memory of the path's live
// outputs. INTERNAL, naming the blocks that one side lacks.
absl::Status CheckPool(Pool& pool, absl::string_view pool_name, Path path);

// OK when the outputs of a recording that are its own lie in blocks of the pool.
// INTERNAL, naming those that do not: nobody would keep their memory for replays.
absl::Status CheckOutputs(Pool& pool, absl::string_view pool_name,
                          const Node& node);

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_POOL_CHECK_H_
