#ifndef KILN_CACHE_BOUNDED_BLOB_STORE_H_
#define KILN_CACHE_BOUNDED_BLOB_STORE_H_

#include <cstdint>

#include "cache/blob_store.h"
#include "cache/key_claims.h"
#include "proto/base/mutex.h"

namespace kiln {

// Keeps the bytes of `inner` within a budget without knowing its keys: for what
// may be lost, and which of it does not matter. A Put over the budget deletes the
// next few keys after those that went last; keys being digests, these are any.
//
// Until Recount has been called it knows of what was put through it alone, and
// lets the rest be. Thread-safe when `inner` is.
class BoundedBlobStore final : public BlobStore {
 public:
  // `inner` outlives this. All writes to `inner` go through here.
  BoundedBlobStore(BlobStore& inner, int64_t budget_bytes)
      : inner_(inner), budget_bytes_(budget_bytes) {}

  // Learns what `inner` holds: reads all its sizes. What is put meanwhile may be
  // counted twice, until it is called again.
  absl::Status Recount() ABSL_LOCKS_EXCLUDED(mu_);

  absl::StatusOr<Blob> Get(const Digest& key) const override;
  // OUT_OF_RANGE TOO_LARGE for a blob that is over the budget alone.
  absl::Status Put(const Digest& key, absl::string_view bytes) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Delete(const Digest& key) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override;

  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t blobs() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Of what is stored under the key; -1: nothing that can be read.
  int64_t SizeOf(const Digest& key) const;
  void Count(int64_t before, int64_t after) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status MakeRoom() ABSL_LOCKS_EXCLUDED(mu_);

  BlobStore& inner_;
  const int64_t budget_bytes_;
  KeyClaims claims_;  // of keys being put or deleted
  mutable Mutex mu_;
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t blobs_ ABSL_GUARDED_BY(mu_) = 0;
  Digest next_ ABSL_GUARDED_BY(mu_);  // where deleting goes on
};

}  // namespace kiln

#endif  // KILN_CACHE_BOUNDED_BLOB_STORE_H_
