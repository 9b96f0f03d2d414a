#ifndef KILN_CACHE_LRU_BLOB_STORE_H_
#define KILN_CACHE_LRU_BLOB_STORE_H_

#include <cstdint>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "cache/blob_store.h"
#include "proto/base/mutex.h"

namespace kiln {

// Blobs in memory within a budget of bytes: the least recently used give way, by
// a Get or a Put. Each call costs the same however many there are. Thread-safe.
class LruBlobStore final : public BlobStore {
 public:
  explicit LruBlobStore(int64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  absl::StatusOr<Blob> Get(const Digest& key) const override
      ABSL_LOCKS_EXCLUDED(mu_);
  // OUT_OF_RANGE TOO_LARGE for a blob that is over the budget alone.
  absl::Status Put(const Digest& key, absl::string_view bytes) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status PutBlob(const Digest& key, const Blob& blob) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Delete(const Digest& key) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override ABSL_LOCKS_EXCLUDED(mu_);

  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t blobs() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Line = std::list<std::pair<Digest, Blob>>;

  absl::Status CheckSize(const Digest& key, size_t bytes) const;
  // What is taken out is freed after the lock.
  void Remove(Line::iterator place, Line& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t budget_bytes_;
  mutable Mutex mu_;
  mutable Line line_ ABSL_GUARDED_BY(mu_);  // the last used in front
  absl::flat_hash_map<Digest, Line::iterator> places_ ABSL_GUARDED_BY(mu_);
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kiln

#endif  // KILN_CACHE_LRU_BLOB_STORE_H_
