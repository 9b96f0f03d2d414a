#ifndef KILN_CACHE_FAR_REDIS_SLOTS_H_
#define KILN_CACHE_FAR_REDIS_SLOTS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/far/host_resolver.h"
#include "cache/far/resp.h"

namespace kiln {

// How a Redis cluster spreads keys over its nodes (Redis cluster specification).
// All of it pure.

inline constexpr int kRedisSlots = 16384;

// CRC16 (XMODEM) of the key, or of what stands between its first "{" and the next
// "}" where that is not empty, modulo kRedisSlots.
int SlotOf(absl::string_view key);

// Which node each slot's primary is. A value.
class SlotMap {
 public:
  // Of the reply to CLUSTER SLOTS by the node at `asked`, whose host stands in for
  // hosts that the reply leaves out. Ranges without a usable primary are left
  // out.
  //
  // DATA_LOSS ARTIFACT_CORRUPT: not such a reply, ranges that overlap so that
  // they have more than kRedisSlots slots together, or over kMaxNodes nodes.
  static absl::StatusOr<SlotMap> Parse(const RespValue& reply,
                                       const HostPort& asked);

  // Primaries that one map may name.
  static constexpr int kMaxNodes = 1000;

  // Null where nobody serves the slot.
  const HostPort* NodeOf(int slot) const;
  void Move(int slot, const HostPort& to);
  const std::vector<HostPort>& nodes() const { return nodes_; }

 private:
  int IndexOf(const HostPort& node);

  std::vector<HostPort> nodes_;
  std::map<HostPort, int> indexes_;                             // in nodes_
  std::vector<int> owner_ = std::vector<int>(kRedisSlots, -1);  // in nodes_
};

// What "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381" say; empty for
// any other error.
struct Redirect {
  bool ask = false;  // this command alone; MOVED: the slot for good
  int slot = 0;
  HostPort to;
};
std::optional<Redirect> ParseRedirect(absl::string_view error,
                                      const HostPort& asked);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_REDIS_SLOTS_H_
