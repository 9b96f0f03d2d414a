#ifndef KILN_CACHE_EVICTION_POLICY_H_
#define KILN_CACHE_EVICTION_POLICY_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/digest.h"

namespace kiln {

// Something stored that may go.
struct Evictable {
  Digest key;
  int64_t bytes = 0;
  absl::Duration rebuild;  // what it took to make
  absl::Duration unused;   // since its last use
  bool stale = false;      // of a build that no longer exists
};

// What its bytes are worth: seconds of rebuilding that a byte saves, for each hour
// that it lay unused (a millisecond, and an hour, at least). So of two that are equally dear the one
// used longer ago goes, and of two used together the one that is cheaper to make
// again for its size.
double Worth(const Evictable& stored);

// What is to go: at least so many bytes, and so many in number.
struct Excess {
  int64_t bytes = 0;
  int64_t count = 0;
};

// The first of `stored` in the order of going whose leaving takes the excess away;
// all of them when that is not enough. Stale ones go first, then by worth, then by
// key.
//
// Pure. n log n.
std::vector<Evictable> ChooseVictims(std::vector<Evictable> stored,
                                     Excess excess);

}  // namespace kiln

#endif  // KILN_CACHE_EVICTION_POLICY_H_
