#ifndef KILN_CACHE_METERED_BLOB_STORE_H_
#define KILN_CACHE_METERED_BLOB_STORE_H_

#include <atomic>
#include <cstdint>

#include "cache/blob_store.h"

namespace kiln {

struct StoreCounts {
  int64_t gets = 0;
  int64_t found = 0;  // gets that were OK
  int64_t puts = 0;   // that were OK
  int64_t deletes = 0;
  int64_t failures = 0;  // of any kind but NOT_FOUND
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

// Counts what passes through. Thread-safe when `inner` is.
class MeteredBlobStore final : public BlobStore {
 public:
  explicit MeteredBlobStore(BlobStore& inner) : inner_(inner) {}

  absl::StatusOr<Blob> Get(const Digest& key) const override;
  absl::Status Put(const Digest& key, absl::string_view bytes) override;
  absl::Status Delete(const Digest& key) override;
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override;

  // Each number is right; they are not of one moment.
  StoreCounts counts() const;

 private:
  BlobStore& inner_;
  mutable std::atomic<int64_t> gets_{0}, found_{0}, puts_{0}, deletes_{0},
      failures_{0}, bytes_read_{0}, bytes_written_{0};
};

}  // namespace kiln

#endif  // KILN_CACHE_METERED_BLOB_STORE_H_
