#include "cache/verified_blob_store.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/entry_format.h"
#include "proto/base/bounded_log.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<Blob> VerifiedBlobStore::Get(const Digest& key) const {
  ASSIGN_OR_RETURN(Record found, GetRecord(key));
  return Blob(std::make_shared<const std::string>(std::move(found.payload)));
}

absl::StatusOr<VerifiedBlobStore::Record> VerifiedBlobStore::GetRecord(
    const Digest& key) const {
  absl::StatusOr<Blob> record = inner_.Get(key);
  if (!record.ok()) {
    // The store's own checksum may have found it first.
    if (absl::IsDataLoss(record.status())) {
      Quarantine(key, std::make_shared<const std::string>(), record.status());
    }
    return record.status();
  }
  absl::StatusOr<std::string> payload =
      OpenRecord(key, **record, *keys_->trusted());
  if (ReasonOf(payload.status()) == ErrorReason::kArtifactIncompatible) {
    ++other_versions_;
    return absl::NotFoundError(payload.status().message());
  }
  if (!payload.ok()) {
    Quarantine(key, *record, payload.status());
    return std::move(payload).status();
  }
  return Record{*std::move(record), *std::move(payload)};
}

absl::StatusOr<std::string> VerifiedBlobStore::Peek(const Digest& key) const {
  ASSIGN_OR_RETURN(const Blob record, inner_.Get(key));
  return OpenRecord(key, *record, *keys_->trusted());
}

void VerifiedBlobStore::Quarantine(const Digest& key, const Blob& record,
                                   const absl::Status& why) const {
  ++broken_;
  const absl::Status kept = quarantine_.Put(key, *record);
  const absl::Status removed = inner_.Delete(key);
  // After a revocation one walk may meet a million of them.
  LogBounded("cache.quarantined", key.ShortHex(),
             absl::StrCat(kept.ok() ? "" : "could not be kept; ",
                          removed.ok() ? "" : "could not be removed; ",
                          why.ToString()));
  if (on_refused_ != nullptr) on_refused_(key, why);
}

absl::Status VerifiedBlobStore::Put(const Digest& key,
                                    absl::string_view bytes) {
  RETURN_IF_ERROR(CheckReplaceable(key));
  return inner_.Put(key, SealRecord(key, bytes, *keys_->SignerOf("")));
}

absl::Status VerifiedBlobStore::PutRecord(const Digest& key,
                                          absl::string_view record) {
  RETURN_IF_ERROR(CheckReplaceable(key));
  return inner_.Put(key, record);
}

absl::Status VerifiedBlobStore::CheckReplaceable(const Digest& key) const {
  const absl::StatusOr<Blob> before = inner_.Get(key);
  if (!before.ok()) return absl::OkStatus();
  const absl::Status opened =
      OpenRecord(key, **before, *keys_->trusted()).status();
  if (ReasonOf(opened) != ErrorReason::kArtifactIncompatible)
    return absl::OkStatus();
  ++other_versions_;
  return opened;
}

absl::Status VerifiedBlobStore::Delete(const Digest& key) {
  return inner_.Delete(key);
}

absl::Status VerifiedBlobStore::ScanFrom(
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  return inner_.ScanFrom(from, visit);
}

}  // namespace kiln
