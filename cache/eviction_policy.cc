#include "cache/eviction_policy.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace kiln {

double Worth(const Evictable& stored) {
  const double bytes = static_cast<double>(std::max<int64_t>(stored.bytes, 1));
  const absl::Duration unused =
      std::max(stored.unused, absl::ZeroDuration()) + absl::Hours(1);
  const absl::Duration rebuild =
      std::max(stored.rebuild, absl::Milliseconds(1));
  return absl::ToDoubleSeconds(rebuild) / bytes / absl::ToDoubleHours(unused);
}

std::vector<Evictable> ChooseVictims(std::vector<Evictable> stored,
                                     Excess excess) {
  using Rank = std::tuple<bool, double, Digest>;
  std::vector<std::pair<Rank, size_t>> order;
  order.reserve(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    order.push_back(
        {Rank{!stored[i].stale, Worth(stored[i]), stored[i].key}, i});
  }
  std::sort(order.begin(), order.end());
  std::vector<Evictable> victims;
  for (const auto& [rank, i] : order) {
    if (excess.bytes <= 0 && excess.count <= 0) break;
    excess.bytes -= stored[i].bytes;
    --excess.count;
    victims.push_back(std::move(stored[i]));
  }
  return victims;
}

}  // namespace kiln
