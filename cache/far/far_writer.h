#ifndef KILN_CACHE_FAR_FAR_WRITER_H_
#define KILN_CACHE_FAR_FAR_WRITER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "cache/blob_store.h"
#include "cache/far/far_budget.h"
#include "cache/far/far_counts.h"
#include "cache/far/far_store.h"
#include "proto/base/key_ring.h"
#include "proto/base/mutex.h"

namespace kiln {

// Writes to a far store behind everybody's back: from a bounded queue, on a
// thread of its own, which also seals the records. What does not fit is dropped
// and counted; nobody waits. Thread-safe.
class FarWriter {
 public:
  struct Write {
    FarName name;
    std::string cache_namespace;  // whose key seals it; empty: all share it
    std::string hint;             // of an entry
    Blob payload;                 // sealed by the thread
  };

  struct Limits {
    int64_t queue_bytes;
    int64_t max_record_bytes;
    // As FarBudget's. Units, which all share, are a namespace of their own.
    std::map<std::string, int64_t> namespace_budgets = {};
    absl::Duration ttl = absl::Hours(24 * 14);
  };

  // `store` and `counts` outlive this.
  FarWriter(FarStore& store, std::shared_ptr<const KeyRing> keys,
            const Limits& limits, FarCounts& counts);
  FarWriter(const FarWriter&) = delete;
  FarWriter& operator=(const FarWriter&) = delete;
  // Writes what is queued, for kFlushTime at most.
  ~FarWriter();

  void Queue(Write write) ABSL_LOCKS_EXCLUDED(mu_);

  // Called on the thread once what was queued before is stored or dropped; ends by
  // the deadline it is given. Dropped as a write is.
  using Call = std::function<void(SteadyTime deadline)>;
  void QueueCall(Call call) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // One of both.
  struct Item {
    Write write;
    Call call;
  };

  // False: no room.
  bool Add(Item item) ABSL_LOCKS_EXCLUDED(mu_);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  void Store(const Write& write, SteadyTime deadline);

  FarStore& store_;
  const std::shared_ptr<const KeyRing> keys_;
  const Limits limits_;
  FarBudget budget_;  // the thread's
  FarCounts& counts_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  SteadyTime end_ ABSL_GUARDED_BY(mu_);  // of the last write, once ending_
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_WRITER_H_
