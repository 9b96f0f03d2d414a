#ifndef KILN_CACHE_BOUNDED_BLOB_STORE_H_
#define KILN_CACHE_BOUNDED_BLOB_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "cache/blob_store.h"
#include "cache/key_claims.h"
#include "cache/usage_log.h"
#include "proto/base/mutex.h"

namespace kiln {

// Keeps the bytes of `inner` within a budget: after a Put the least recently
// used blobs go (eviction_policy.h). A Put counts as a use; a Get does not,
// since only the caller knows whether it served anybody: it touches the log.
//
// Thread-safe when `inner` is. No I/O under the lock; writes of one key go one
// after another, so that the sum is that of what `inner` holds.
class BoundedBlobStore final : public BlobStore {
 public:
  // `inner` and `usage` outlive this. All writes to `inner` go through here.
  BoundedBlobStore(BlobStore& inner, UsageLog& usage, int64_t budget_bytes)
      : inner_(inner), usage_(usage), budget_bytes_(budget_bytes) {}

  // Called with each key that is about to be evicted, without a lock. To be set
  // before the store is used.
  void CallBeforeEviction(std::function<void(const Digest&)> call) {
    before_eviction_ = std::move(call);
  }

  // Learns what `inner` holds, and brings it within the budget.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);

  absl::StatusOr<Blob> Get(const Digest& key) const override;
  // OUT_OF_RANGE TOO_LARGE for a blob that is over the budget alone.
  absl::Status Put(const Digest& key, absl::string_view bytes) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Delete(const Digest& key) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Scan(absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                        visit) const override;

  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t blobs() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t evicted() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // True when the sum is over the budget now.
  absl::StatusOr<bool> PutOne(const Digest& key, absl::string_view bytes)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Evict() ABSL_LOCKS_EXCLUDED(mu_);

  BlobStore& inner_;
  UsageLog& usage_;
  const int64_t budget_bytes_;
  std::function<void(const Digest&)> before_eviction_;  // or empty
  KeyClaims claims_;  // of keys being put or deleted
  mutable Mutex mu_;
  std::map<Digest, int64_t> sizes_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t evicted_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kiln

#endif  // KILN_CACHE_BOUNDED_BLOB_STORE_H_
