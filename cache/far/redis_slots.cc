#include "cache/far/redis_slots.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kMaxPort = 65535;

uint16_t Crc16(absl::string_view bytes) {
  uint16_t crc = 0;
  for (const char byte : bytes) {
    crc ^= static_cast<uint16_t>(static_cast<unsigned char>(byte) << 8);
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = (crc & 0x8000) != 0;
      crc = static_cast<uint16_t>(crc << 1);
      if (carry) crc ^= 0x1021;
    }
  }
  return crc;
}

absl::Status NoSlots(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("CLUSTER SLOTS: ", what));
}

bool IsSlot(int64_t number) { return number >= 0 && number < kRedisSlots; }

// The node of a range; empty where the reply names none that can be reached.
std::optional<HostPort> NodeIn(const RespValue& node, const HostPort& asked) {
  using Kind = RespValue::Kind;
  if (node.items.size() < 2 || !node.items[1].is(Kind::kInteger))
    return std::nullopt;
  const RespValue& host = node.items[0];
  const int64_t port = node.items[1].integer;
  if (port < 1 || port > kMaxPort || host.text == "?") return std::nullopt;
  return HostPort{host.text.empty() ? asked.host : host.text,
                  static_cast<int>(port)};
}

}  // namespace

int SlotOf(absl::string_view key) {
  const size_t open = key.find('{');
  if (open != key.npos) {
    const size_t close = key.find('}', open + 1);
    if (close != key.npos && close > open + 1)
      key = key.substr(open + 1, close - open - 1);
  }
  return Crc16(key) % kRedisSlots;
}

absl::StatusOr<SlotMap> SlotMap::Parse(const RespValue& reply,
                                       const HostPort& asked) {
  using Kind = RespValue::Kind;
  if (!reply.is(Kind::kArray)) return NoSlots("expected an array");
  SlotMap map;
  int64_t slots = 0;  // a range costs as much work as it has slots
  for (const RespValue& range : reply.items) {
    if (range.items.size() < 3 || !range.items[0].is(Kind::kInteger) ||
        !range.items[1].is(Kind::kInteger)) {
      return NoSlots("expected first slot, last slot and nodes");
    }
    const int64_t first = range.items[0].integer;
    const int64_t last = range.items[1].integer;
    if (!IsSlot(first) || !IsSlot(last) || last < first)
      return NoSlots("a slot out of range");
    slots += last - first + 1;
    if (slots > kRedisSlots) return NoSlots("ranges that overlap");
    const std::optional<HostPort> primary = NodeIn(range.items[2], asked);
    if (!primary.has_value()) continue;
    const int index = map.IndexOf(*primary);
    if (index >= kMaxNodes) return NoSlots("too many nodes");
    for (int64_t slot = first; slot <= last; ++slot) map.owner_[slot] = index;
  }
  return map;
}

const HostPort* SlotMap::NodeOf(int slot) const {
  const int index = owner_[slot];
  return index < 0 ? nullptr : &nodes_[index];
}

void SlotMap::Move(int slot, const HostPort& to) {
  if (nodes_.size() < kMaxNodes) owner_[slot] = IndexOf(to);
}

int SlotMap::IndexOf(const HostPort& node) {
  const auto [known, is_new] =
      indexes_.try_emplace(node, static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return known->second;
}

std::optional<Redirect> ParseRedirect(absl::string_view error,
                                      const HostPort& asked) {
  const std::vector<absl::string_view> words = absl::StrSplit(error, ' ');
  if (words.size() != 3 || (words[0] != "MOVED" && words[0] != "ASK"))
    return std::nullopt;
  Redirect redirect;
  redirect.ask = words[0] == "ASK";
  const size_t colon = words[2].rfind(':');
  if (!absl::SimpleAtoi(words[1], &redirect.slot) || !IsSlot(redirect.slot) ||
      colon == words[2].npos ||
      !absl::SimpleAtoi(words[2].substr(colon + 1), &redirect.to.port) ||
      redirect.to.port < 1 || redirect.to.port > kMaxPort) {
    return std::nullopt;
  }
  redirect.to.host = std::string(words[2].substr(0, colon));
  if (redirect.to.host.empty()) redirect.to.host = asked.host;
  return redirect;
}

}  // namespace kiln
