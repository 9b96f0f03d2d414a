#include "runtime/graph_tree/path.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "absl/container/flat_hash_set.h"

namespace kiln::graph_tree {
namespace {

bool IsLive(Path path, const PathIndex& at) {
  return path[at.depth]->IsLive(at.output);
}

template <typename Visit>
void ForEachOutput(Path path, Visit visit) {
  for (int depth = 0; depth < static_cast<int>(path.size()); ++depth) {
    const int outputs = static_cast<int>(path[depth]->outputs.size());
    for (int output = 0; output < outputs; ++output) {
      visit(PathIndex{depth, output}, path[depth]->outputs[output]);
    }
  }
}

}  // namespace

std::vector<PathIndex> LiveOutputs(Path path) {
  std::vector<PathIndex> live;
  ForEachOutput(path, [&](const PathIndex& at, const NodeOutput&) {
    if (IsLive(path, at)) live.push_back(at);
  });
  return live;
}

std::vector<PathIndex> Died(absl::Span<const PathIndex> before,
                            absl::Span<const PathIndex> after) {
  std::vector<PathIndex> died;
  std::set_difference(
      before.begin(), before.end(), after.begin(), after.end(),
      std::back_inserter(died), [](const PathIndex& a, const PathIndex& b) {
        return std::tie(a.depth, a.output) < std::tie(b.depth, b.output);
      });
  return died;
}

bool AreDead(Path path, absl::Span<const PathIndex> outputs) {
  return std::none_of(
      outputs.begin(), outputs.end(),
      [&](const PathIndex& output) { return IsLive(path, output); });
}

bool AllOutputsAreDead(const Node& node) {
  // A warm-up keeps no list: it runs once.
  return node.is_warm_up() ? LiveOutputs(node.path).empty()
                           : AreDead(node.path, node.live_after);
}

std::optional<PathIndex> FindLive(Path path, const void* address) {
  std::optional<PathIndex> found;
  ForEachOutput(path, [&](const PathIndex& at, const NodeOutput& output) {
    if (!found && output.address == address && IsLive(path, at)) found = at;
  });
  return found;
}

bool IsManaged(Path path, const void* address) {
  bool found = false;
  ForEachOutput(path, [&](const PathIndex&, const NodeOutput& output) {
    found |= output.storage.get() != nullptr && output.address == address;
  });
  return found;
}

std::vector<LiveStorage> LiveStorages(Path path) {
  std::vector<LiveStorage> live;
  absl::flat_hash_set<Storage> seen;
  ForEachOutput(path, [&](const PathIndex& at, const NodeOutput& output) {
    const Storage storage = output.storage.get();
    if (IsLive(path, at) && seen.insert(storage).second) {
      live.push_back({storage, output.address, at});
    }
  });
  return live;
}

std::vector<std::shared_ptr<void>> HoldAll(
    Path path, absl::FunctionRef<bool(const LiveStorage&)> is_left) {
  std::vector<std::shared_ptr<void>> held;
  for (const LiveStorage& live : LiveStorages(path)) {
    if (is_left(live)) continue;
    const NodeOutput& output =
        path[live.output.depth]->outputs[live.output.output];
    held.push_back(output.storage.Hold());
  }
  return held;
}

std::vector<Storage> MayHoldGradients(Path path) {
  std::vector<Storage> live;
  const bool has_backward = std::any_of(
      path.begin(), path.end(),
      [](const Node* node) { return node->function->mode == Mode::kBackward; });
  if (!has_backward) return live;
  for (const LiveStorage& one : LiveStorages(path)) live.push_back(one.storage);
  return live;
}

}  // namespace kiln::graph_tree
