#ifndef KILN_CACHE_MEMORY_BLOB_STORE_H_
#define KILN_CACHE_MEMORY_BLOB_STORE_H_

#include <map>

#include "cache/blob_store.h"
#include "proto/base/mutex.h"

namespace kiln {

// Blobs in memory; gone with the process. Never fails. Thread-safe.
class MemoryBlobStore final : public BlobStore {
 public:
  absl::StatusOr<Blob> Get(const Digest& key) const override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Put(const Digest& key, absl::string_view bytes) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Delete(const Digest& key) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  std::map<Digest, Blob> blobs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_MEMORY_BLOB_STORE_H_
