#ifndef KILN_CACHE_VERIFIED_BLOB_STORE_H_
#define KILN_CACHE_VERIFIED_BLOB_STORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cache/blob_store.h"
#include "proto/base/key_ring.h"

namespace kiln {

// Payloads above, sealed records (entry_format.h) below. What comes back is
// what was put, or an error.
//
// A record that is not sound is moved to `quarantine`, counted and logged, so many a
// minute; the next Get of its key finds nothing. A sound one of another version is
// another build's: it is counted and left where it is. Thread-safe when the stores are.
class VerifiedBlobStore final : public BlobStore {
 public:
  // The stores outlive this. Puts are signed by the key for what all namespaces
  // share; records of every key that is believed at the time are.
  // `on_refused` is called for each record that fails verification, with the reason, on
  // the thread that read it. It may be empty.
  using OnRefused =
      std::function<void(const Digest& key, const absl::Status& why)>;
  VerifiedBlobStore(BlobStore& inner, BlobStore& quarantine,
                    std::shared_ptr<const KeyRing> keys,
                    OnRefused on_refused = nullptr)
      : inner_(inner),
        quarantine_(quarantine),
        keys_(std::move(keys)),
        on_refused_(std::move(on_refused)) {}

  // DATA_LOSS ARTIFACT_CORRUPT or PERMISSION_DENIED ARTIFACT_UNTRUSTED for a
  // record that is not sound, NOT_FOUND for one of another version, beside what
  // `inner` says.
  absl::StatusOr<Blob> Get(const Digest& key) const override;

  struct Record {
    Blob record;
    std::string payload;
  };
  // The record as it is, too. Errors as Get.
  absl::StatusOr<Record> GetRecord(const Digest& key) const;

  // FAILED_PRECONDITION ARTIFACT_INCOMPATIBLE where a record of another version
  // stands, beside what `inner` says.
  absl::Status Put(const Digest& key, absl::string_view bytes) override;
  // Puts a record that OpenRecord took, as it is: whoever signed it, it stays
  // signed by. Errors as Put.
  absl::Status PutRecord(const Digest& key, absl::string_view record);
  absl::Status Delete(const Digest& key) override;
  // `bytes` is of the record. Nothing is verified.
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override;

  // The payload, and nothing is done about a record that is not sound: the errors of
  // Get, and FAILED_PRECONDITION ARTIFACT_INCOMPATIBLE for one of another version.
  absl::StatusOr<std::string> Peek(const Digest& key) const;

  // Records found broken since this was made.
  int64_t broken() const { return broken_; }
  // Times that one of another version was met.
  int64_t other_versions() const { return other_versions_; }

 private:
  absl::Status CheckReplaceable(const Digest& key) const;
  void Quarantine(const Digest& key, const Blob& record,
                  const absl::Status& why) const;

  BlobStore& inner_;
  BlobStore& quarantine_;
  const std::shared_ptr<const KeyRing> keys_;
  const OnRefused on_refused_;
  mutable std::atomic<int64_t> broken_{0};
  mutable std::atomic<int64_t> other_versions_{0};
};

}  // namespace kiln

#endif  // KILN_CACHE_VERIFIED_BLOB_STORE_H_
