#include "runtime/graph_tree/pool_check.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln::graph_tree {
namespace {

absl::Status NotAllocated(absl::string_view pool_name,
                          const std::set<const void*>& missing) {
  const auto number = [](std::string* out, const void* address) {
    absl::StrAppend(out, reinterpret_cast<uintptr_t>(address));
  };
  return absl::InternalError(absl::StrCat(
      "These storage data ptrs are not allocated in pool ", pool_name,
      " but should be: {", absl::StrJoin(missing, ", ", number), "}."));
}

bool IsOwn(OutputRule::Kind kind) {
  return kind == OutputRule::Kind::kCached || kind == OutputRule::Kind::kFresh;
}

}  // namespace

absl::Status CheckOutputs(Pool& pool, absl::string_view pool_name,
                          const Node& node) {
  std::set<const void*> missing;
  for (size_t i = 0; i < node.rules.size(); ++i) {
    if (IsOwn(node.rules[i].kind)) missing.insert(node.outputs[i].address);
  }
  if (missing.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<const void*> blocks,
                   pool.AllocatedBlocks());
  for (const void* block : blocks) missing.erase(block);
  return missing.empty() ? absl::OkStatus() : NotAllocated(pool_name, missing);
}

absl::Status CheckPool(Pool& pool, absl::string_view pool_name, Path path) {
  // Another thread may drop one between the two looks.
  const auto held = HoldAll(path, [](const LiveStorage&) { return false; });
  ASSIGN_OR_RETURN(const std::vector<const void*> blocks,
                   pool.AllocatedBlocks());
  std::set<const void*> stray(blocks.begin(), blocks.end());
  std::set<const void*> missing;
  for (const LiveStorage& live : LiveStorages(path)) {
    if (stray.erase(live.address) == 0) missing.insert(live.address);
  }
  if (!missing.empty()) return NotAllocated(pool_name, missing);
  if (stray.empty()) return absl::OkStatus();
  const std::vector<const void*> unknown(stray.begin(), stray.end());
  const std::string origin = pool.OriginOf(unknown);
  return absl::InternalError(
      absl::StrCat("Detected ", unknown.size(),
                   " tensor(s) in the cudagraph pool not tracked as outputs. "
                   "All live allocations must be tracked for correctness.",
                   origin.empty() ? "" : "\n", origin));
}

}  // namespace kiln::graph_tree
