#ifndef KILN_CACHE_BLOB_STORE_H_
#define KILN_CACHE_BLOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"

namespace kiln {

// Bytes that are shared and not changed any more. Never null.
using Blob = std::shared_ptr<const std::string>;

// Bytes under a digest. Knows nothing of artifacts, formats or eviction.
// Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  // NOT_FOUND when absent. The bytes are as Put gave them; whether they are
  // sound is for entry_format.h to say. UNAVAILABLE STORAGE when the store
  // cannot be read.
  virtual absl::StatusOr<Blob> Get(const Digest& key) const = 0;

  // After OK the bytes outlive a crash of this process (where the store is
  // more than memory). Replaces. UNAVAILABLE STORAGE when the disk is full or
  // the folder cannot be written: what was there before is still there.
  virtual absl::Status Put(const Digest& key, absl::string_view bytes) = 0;

  // As Put; a store in memory keeps the blob itself and no copy of its bytes.
  virtual absl::Status PutBlob(const Digest& key, const Blob& blob) {
    return Put(key, *blob);
  }

  // OK also when absent.
  virtual absl::Status Delete(const Digest& key) = 0;

  // Visits each key from `from` on once, in ascending order, with the number of its
  // bytes. What is damaged is passed by. A non-OK from `visit` ends the scan and is
  // returned. `visit` may call this store.
  virtual absl::Status ScanFrom(
      const Digest& from,
      absl::FunctionRef<absl::Status(const Digest& key, int64_t bytes)> visit)
      const = 0;

  // All keys.
  absl::Status Scan(
      absl::FunctionRef<absl::Status(const Digest& key, int64_t bytes)> visit)
      const {
    return ScanFrom(Digest(), visit);
  }
};

}  // namespace kiln

#endif  // KILN_CACHE_BLOB_STORE_H_
