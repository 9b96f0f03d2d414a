#ifndef KILN_CACHE_FAR_FAR_COUNTS_H_
#define KILN_CACHE_FAR_FAR_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace kiln {

// What happened at the far tier since the start. Thread-safe.
struct FarCounts {
  std::atomic<int64_t> hits{0};      // records found, sound, and of use
  std::atomic<int64_t> misses{0};    // asked, and nothing of use was there
  std::atomic<int64_t> errors{0};    // asks and writes that failed otherwise
  std::atomic<int64_t> timeouts{0};  // asks and writes not answered in time
  std::atomic<int64_t> refused{0};   // records and hints that were not sound
  std::atomic<int64_t> writes{0};    // records stored
  // Records not stored: the queue was full, one was too large, a write failed.
  std::atomic<int64_t> writes_dropped{0};
  // Records not stored, since their namespace has its budget there.
  std::atomic<int64_t> over_budget{0};
  // Asks and writes given up at once, since the store did not answer lately.
  std::atomic<int64_t> breaker_open{0};
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_COUNTS_H_
