#ifndef KILN_CACHE_FORGETTING_BLOB_STORE_H_
#define KILN_CACHE_FORGETTING_BLOB_STORE_H_

#include "cache/blob_store.h"
#include "cache/ledger.h"
#include "proto/base/status.h"

namespace kiln {

// Has the ledger forget what is deleted from `inner`, whoever deletes it: a purge,
// an eviction, or a check that found it broken. Thread-safe when `inner` is.
class ForgettingBlobStore final : public BlobStore {
 public:
  // Both outlive this.
  ForgettingBlobStore(BlobStore& inner, Ledger& ledger)
      : inner_(inner), ledger_(ledger) {}

  absl::StatusOr<Blob> Get(const Digest& key) const override {
    return inner_.Get(key);
  }
  absl::Status Put(const Digest& key, absl::string_view bytes) override {
    return inner_.Put(key, bytes);
  }
  absl::Status Delete(const Digest& key) override {
    RETURN_IF_ERROR(inner_.Delete(key));
    ledger_.Forget(key);
    return absl::OkStatus();
  }
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override {
    return inner_.ScanFrom(from, visit);
  }

 private:
  BlobStore& inner_;
  Ledger& ledger_;
};

}  // namespace kiln

#endif  // KILN_CACHE_FORGETTING_BLOB_STORE_H_
