#ifndef KILN_CACHE_USAGE_LOG_H_
#define KILN_CACHE_USAGE_LOG_H_

#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cache/blob_store.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"

namespace kiln {

// When each key was last used: what eviction and `purge --older-than` go by.
// Kept in memory; written to a store at most once in kWriteEvery for a key, so
// that after a restart a time is at most that much too early.
//
// Thread-safe.
class UsageLog {
 public:
  static constexpr absl::Duration kWriteEvery = absl::Hours(1);

  // `store` may be null: then nothing outlives the process. Both outlive the
  // log. Call Load before use, to have the times of before.
  UsageLog(BlobStore* store, const Clock& clock)
      : store_(store), clock_(clock) {}

  // Reads the store. A row that is not 8 bytes is dropped.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);

  void Touch(const Digest& key) ABSL_LOCKS_EXCLUDED(mu_);
  void Forget(const Digest& key) ABSL_LOCKS_EXCLUDED(mu_);

  // Forgets every key but these.
  void Retain(const std::set<Digest>& keys) ABSL_LOCKS_EXCLUDED(mu_);

  // InfinitePast for a key that was never touched.
  absl::Time LastUsed(const Digest& key) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Use {
    absl::Time last;
    absl::Time written = absl::InfinitePast();
  };

  BlobStore* const store_;
  const Clock& clock_;
  mutable Mutex mu_;
  std::map<Digest, Use> uses_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_USAGE_LOG_H_
