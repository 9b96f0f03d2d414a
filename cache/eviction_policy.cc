#include "cache/eviction_policy.h"

#include <algorithm>

namespace kiln {

std::vector<Digest> ChooseVictims(std::vector<Evictable> entries,
                                  int64_t budget_bytes) {
  int64_t total = 0;
  for (const Evictable& entry : entries) total += entry.bytes;
  if (total <= budget_bytes) return {};
  std::sort(entries.begin(), entries.end(),
            [](const Evictable& a, const Evictable& b) {
              if (a.last_used != b.last_used) return a.last_used < b.last_used;
              return a.key < b.key;
            });
  const int64_t goal = budget_bytes / 10 * 9;
  std::vector<Digest> victims;
  for (const Evictable& entry : entries) {
    if (total <= goal) break;
    victims.push_back(entry.key);
    total -= entry.bytes;
  }
  return victims;
}

}  // namespace kiln
