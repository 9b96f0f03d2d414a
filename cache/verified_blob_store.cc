#include "cache/verified_blob_store.h"

#include <string>
#include <utility>

#include "cache/entry_format.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {

VerifiedBlobStore::VerifiedBlobStore(BlobStore& inner, BlobStore& quarantine,
                                     SigningKey signer,
                                     std::vector<PublicKey> also_trusted)
    : inner_(inner),
      quarantine_(quarantine),
      signer_(std::move(signer)),
      trusted_(std::move(also_trusted)) {
  trusted_.insert(trusted_.begin(), signer_.public_key());
}

absl::StatusOr<Blob> VerifiedBlobStore::Get(const Digest& key) const {
  absl::StatusOr<Blob> record = inner_.Get(key);
  if (!record.ok()) {
    // The store's own checksum may have found it first.
    if (absl::IsDataLoss(record.status())) {
      Quarantine(key, std::make_shared<const std::string>(), record.status());
    }
    return record;
  }
  absl::StatusOr<std::string> payload = OpenRecord(key, **record, trusted_);
  if (ReasonOf(payload.status()) == ErrorReason::kArtifactIncompatible) {
    ++other_versions_;
    return absl::NotFoundError(payload.status().message());
  }
  if (!payload.ok()) {
    Quarantine(key, *record, payload.status());
    return std::move(payload).status();
  }
  return Blob(std::make_shared<const std::string>(*std::move(payload)));
}

void VerifiedBlobStore::Quarantine(const Digest& key, const Blob& record,
                                   const absl::Status& why) const {
  ++broken_;
  const absl::Status kept = quarantine_.Put(key, *record);
  const absl::Status removed = inner_.Delete(key);
  LogWarning("cache.quarantined", {{"key", key.ShortHex()},
                                   {"because", why.ToString()},
                                   {"kept", kept.ok()},
                                   {"removed", removed.ok()}});
}

absl::Status VerifiedBlobStore::Put(const Digest& key,
                                    absl::string_view bytes) {
  const absl::StatusOr<Blob> before = inner_.Get(key);
  if (before.ok()) {
    const absl::Status opened = OpenRecord(key, **before, trusted_).status();
    if (ReasonOf(opened) == ErrorReason::kArtifactIncompatible) {
      ++other_versions_;
      return opened;
    }
  }
  return inner_.Put(key, SealRecord(key, bytes, signer_));
}

absl::Status VerifiedBlobStore::Delete(const Digest& key) {
  return inner_.Delete(key);
}

absl::Status VerifiedBlobStore::Scan(
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  return inner_.Scan(visit);
}

}  // namespace kiln
