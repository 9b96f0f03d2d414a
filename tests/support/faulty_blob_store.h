#ifndef KILN_TESTS_SUPPORT_FAULTY_BLOB_STORE_H_
#define KILN_TESTS_SUPPORT_FAULTY_BLOB_STORE_H_

#include <atomic>

#include "cache/blob_store.h"
#include "proto/base/status.h"

namespace kiln {

// A BlobStore whose Puts fail while `full`, and which counts Gets and passes all
// else on to `inner`.
class FaultyBlobStore final : public BlobStore {
 public:
  explicit FaultyBlobStore(BlobStore& inner) : inner_(inner) {}

  bool full = false;
  mutable std::atomic<int> gets{0};

  absl::Status Put(const Digest& key, absl::string_view bytes) override {
    if (full) return MakeError(ErrorReason::kStorage, "injected: disk full");
    return inner_.Put(key, bytes);
  }
  absl::StatusOr<Blob> Get(const Digest& key) const override {
    ++gets;
    return inner_.Get(key);
  }
  absl::Status Delete(const Digest& key) override { return inner_.Delete(key); }
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override {
    return inner_.ScanFrom(from, visit);
  }

 private:
  BlobStore& inner_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_FAULTY_BLOB_STORE_H_
