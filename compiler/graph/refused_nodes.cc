#include "compiler/graph/refused_nodes.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Room for the count of what does not fit.
constexpr size_t kReservedBytes = 32;

std::optional<ErrorReason> RefusalReasonOf(const absl::Status& status) {
  const std::optional<ErrorReason> reason = ReasonOf(status);
  const bool refusal = reason == ErrorReason::kUnsupportedOp ||
                       reason == ErrorReason::kMalformedGraph;
  return refusal ? reason : std::nullopt;
}

}  // namespace

void RefusedNodes::Add(uint32_t node, absl::string_view op, std::string where,
                       const absl::Status& status) {
  const std::string words(status.message());
  const ErrorReason reason =
      RefusalReasonOf(status).value_or(ErrorReason::kUnsupportedOp);
  refusals_.refusals.push_back({node, std::string(op), reason, words});
  bytes_ += op.size() + words.size();
  // Different words are few: hundreds of nodes have one operator.
  const auto [place, is_new] = group_of_.try_emplace(words, groups_.size());
  if (is_new) groups_.push_back({words, {}});
  groups_[place->second].second.push_back(std::move(where));
}

bool RefusedNodes::Take(absl::Span<const uint32_t> nodes,
                        const absl::Status& status) {
  if (!IsRefusal(status)) return false;
  for (const uint32_t node : nodes) {
    Add(node, "", absl::StrCat("node #", node), status);
  }
  return !nodes.empty();
}

absl::Status RefusedNodes::ToStatus() const {
  if (empty()) return absl::OkStatus();
  std::string text;
  size_t left_out = 0;
  for (const auto& [words, nodes] : groups_) {
    std::string group;
    size_t fitting = 0;
    for (const std::string& node : nodes) {
      const size_t bytes = text.size() + group.size() + node.size() +
                           words.size() + 3 * 4 + kReservedBytes;
      if (bytes > kMostMessageBytes && !(text.empty() && fitting == 0)) break;
      absl::StrAppend(&group, fitting++ == 0 ? "" : ", ", node);
    }
    left_out += nodes.size() - fitting;
    if (fitting == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : " | ", group, ": ", words);
  }
  if (left_out > 0) absl::StrAppend(&text, " | and ", left_out, " more");
  return WithRefusals(MakeError(refusals_.refusals.front().reason, text),
                      refusals_);
}

bool IsRefusal(const absl::Status& status) {
  return RefusalReasonOf(status).has_value();
}

}  // namespace kiln
