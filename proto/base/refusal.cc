#include "proto/base/refusal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "proto/graph.pb.h"
#include "proto/refusal.pb.h"

namespace kiln {
namespace {

constexpr char kUrl[] = "kiln.Refusals";

// Tag and length of a Refusal in its list, and the list's count.
constexpr size_t kFramingBytes = 8;

std::string BytesOf(const Refusals& refusals, size_t most_bytes) {
  wire::Refusals list;
  size_t bytes = kFramingBytes;
  for (const Refusal& refusal : refusals.refusals) {
    wire::Refusal one;
    one.set_node(refusal.node);
    one.set_operator_(refusal.op);
    one.set_reason(std::string(ReasonName(refusal.reason)));
    one.set_text(refusal.text);
    bytes += one.ByteSizeLong() + kFramingBytes;
    if (bytes > most_bytes) break;
    *list.add_refusals() = std::move(one);
  }
  const auto kept = static_cast<size_t>(list.refusals_size());
  list.set_more(refusals.more || kept < refusals.refusals.size());
  return list.SerializeAsString();
}

Refusals Read(const wire::Refusals& list) {
  Refusals refusals;
  for (const wire::Refusal& one : list.refusals()) {
    const std::optional<ErrorReason> reason = ReasonFromName(one.reason());
    refusals.refusals.push_back({one.node(), one.operator_(),
                                 reason.value_or(ErrorReason::kUnsupportedOp),
                                 one.text()});
  }
  refusals.more = list.more();
  return refusals;
}

}  // namespace

absl::Status WithRefusals(absl::Status status, Refusals refusals) {
  std::vector<Refusal>& all = refusals.refusals;
  std::stable_sort(
      all.begin(), all.end(),
      [](const Refusal& a, const Refusal& b) { return a.node < b.node; });
  all.erase(std::unique(all.begin(), all.end(),
                        [](const Refusal& a, const Refusal& b) {
                          return a.node == b.node;
                        }),
            all.end());
  status.SetPayload(kUrl, absl::Cord(BytesOf(refusals, kMostRefusalBytes)));
  return status;
}

absl::Status NameOperators(absl::Status status, const wire::Graph& graph) {
  Refusals found = RefusalsOf(status);
  if (found.refusals.empty()) return status;
  Refusals named;
  named.more = found.more;
  for (Refusal& refusal : found.refusals) {
    if (refusal.node >= static_cast<uint32_t>(graph.nodes_size())) continue;
    refusal.op = graph.nodes(static_cast<int>(refusal.node)).op();
    named.refusals.push_back(std::move(refusal));
  }
  return WithRefusals(std::move(status), std::move(named));
}

Refusals RefusalsOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kUrl);
  wire::Refusals list;
  if (!payload.has_value() || !list.ParseFromString(std::string(*payload)))
    return {};
  return Read(list);
}

std::string RefusalBytesOf(const absl::Status& status, size_t most_bytes) {
  const Refusals refusals = RefusalsOf(status);
  return refusals.refusals.empty() ? "" : BytesOf(refusals, most_bytes);
}

absl::Status WithRefusalBytes(absl::Status status, absl::string_view bytes) {
  wire::Refusals list;
  if (!list.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      list.refusals_size() == 0) {
    return status;
  }
  return WithRefusals(std::move(status), Read(list));
}

}  // namespace kiln
