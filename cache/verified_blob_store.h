#ifndef KILN_CACHE_VERIFIED_BLOB_STORE_H_
#define KILN_CACHE_VERIFIED_BLOB_STORE_H_

#include <atomic>
#include <vector>

#include "cache/blob_store.h"
#include "proto/base/signature.h"

namespace kiln {

// Payloads above, sealed records (entry_format.h) below. What comes back is
// what was put, or an error.
//
// A record that is not sound is moved to `quarantine`, counted and logged; the
// next Get of its key finds nothing. A sound one of another version is another
// build's: it is counted and left where it is. Thread-safe when the stores are.
class VerifiedBlobStore final : public BlobStore {
 public:
  // The stores outlive this. Records of `signer` and of `also_trusted` are
  // believed.
  VerifiedBlobStore(BlobStore& inner, BlobStore& quarantine, SigningKey signer,
                    std::vector<PublicKey> also_trusted);

  // DATA_LOSS ARTIFACT_CORRUPT or PERMISSION_DENIED ARTIFACT_UNTRUSTED for a
  // record that is not sound, NOT_FOUND for one of another version, beside what
  // `inner` says.
  absl::StatusOr<Blob> Get(const Digest& key) const override;
  // FAILED_PRECONDITION ARTIFACT_INCOMPATIBLE where a record of another version
  // stands, beside what `inner` says.
  absl::Status Put(const Digest& key, absl::string_view bytes) override;
  absl::Status Delete(const Digest& key) override;
  // `bytes` is of the record. Nothing is verified.
  absl::Status Scan(absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                        visit) const override;

  // Records found broken since this was made.
  int64_t broken() const { return broken_; }
  // Times that one of another version was met.
  int64_t other_versions() const { return other_versions_; }

 private:
  void Quarantine(const Digest& key, const Blob& record,
                  const absl::Status& why) const;

  BlobStore& inner_;
  BlobStore& quarantine_;
  const SigningKey signer_;
  std::vector<PublicKey> trusted_;
  mutable std::atomic<int64_t> broken_{0};
  mutable std::atomic<int64_t> other_versions_{0};
};

}  // namespace kiln

#endif  // KILN_CACHE_VERIFIED_BLOB_STORE_H_
