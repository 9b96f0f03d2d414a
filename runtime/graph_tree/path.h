#ifndef KILN_RUNTIME_GRAPH_TREE_PATH_H_
#define KILN_RUNTIME_GRAPH_TREE_PATH_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/graph_tree/node.h"

// Which outputs on the path from the root to a node are in use.

namespace kiln::graph_tree {

using Path = absl::Span<Node* const>;

// In order of depth and output.
std::vector<PathIndex> LiveOutputs(Path path);

// The elements of `before` that `after` lacks; both sorted.
std::vector<PathIndex> Died(absl::Span<const PathIndex> before,
                            absl::Span<const PathIndex> after);

bool AreDead(Path path, absl::Span<const PathIndex> outputs);

// Whether nothing is in use that was when `node` had run.
bool AllOutputsAreDead(const Node& node);

// The live output that has its storage at `address`, if any.
std::optional<PathIndex> FindLive(Path path, const void* address);

// Whether an output of the path has its storage at `address`, live or dead.
bool IsManaged(Path path, const void* address);

// The storages in use, each once.
struct LiveStorage {
  Storage storage = nullptr;
  const void* address = nullptr;
  PathIndex output;  // the first that has it
};
std::vector<LiveStorage> LiveStorages(Path path);
// While these are there, nothing of the path dies that was live, where the framework
// can hold it; but storages for which `is_left` is true.
std::vector<std::shared_ptr<void>> HoldAll(
    Path path, absl::FunctionRef<bool(const LiveStorage&)> is_left);
// Those that gradients may lie in: none where there is no backward.
std::vector<Storage> MayHoldGradients(Path path);

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_PATH_H_
