#ifndef KILN_CACHE_EVICTION_POLICY_H_
#define KILN_CACHE_EVICTION_POLICY_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/digest.h"

namespace kiln {

struct Evictable {
  Digest key;
  int64_t bytes = 0;
  absl::Time last_used;
};

// The least recently used of `entries` whose going brings their sum to at most
// nine tenths of `budget_bytes`; none while the sum is within the budget. The
// tenth is so that a full store does not choose anew for every write. Equal
// times go by key.
//
// Pure. n log n.
std::vector<Digest> ChooseVictims(std::vector<Evictable> entries,
                                  int64_t budget_bytes);

}  // namespace kiln

#endif  // KILN_CACHE_EVICTION_POLICY_H_
