#include "compiler/graph/refusals.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Room for the count of what does not fit.
constexpr size_t kReservedBytes = 32;

}  // namespace

void Refusals::Add(std::string where, const absl::Status& status) {
  // Different words are few: hundreds of nodes have one operator.
  const auto same = std::find_if(
      groups_.begin(), groups_.end(),
      [&](const auto& group) { return group.first == status.message(); });
  if (same != groups_.end()) {
    same->second.push_back(std::move(where));
    return;
  }
  groups_.push_back({std::string(status.message()), {std::move(where)}});
}

absl::Status Refusals::ToStatus() const {
  if (groups_.empty()) return absl::OkStatus();
  std::string text;
  size_t left_out = 0;
  for (const auto& [words, nodes] : groups_) {
    std::string group;
    size_t fitting = 0;
    for (const std::string& node : nodes) {
      const size_t bytes = text.size() + group.size() + node.size() +
                           words.size() + 3 * 4 + kReservedBytes;
      if (bytes > kMostBytes && !(text.empty() && fitting == 0)) break;
      absl::StrAppend(&group, fitting++ == 0 ? "" : ", ", node);
    }
    left_out += nodes.size() - fitting;
    if (fitting == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : " | ", group, ": ", words);
  }
  if (left_out > 0) absl::StrAppend(&text, " | and ", left_out, " more");
  return MakeError(ErrorReason::kUnsupportedOp, text);
}

}  // namespace kiln
