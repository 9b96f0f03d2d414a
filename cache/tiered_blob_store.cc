#include "cache/tiered_blob_store.h"

#include <utility>

#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<Blob> TieredBlobStore::Get(const Digest& key) const {
  absl::StatusOr<Blob> found = near_.Get(key);
  if (found.ok()) return found;
  const KeyClaims::Claim claim(claims_, key);
  found = near_.Get(key);  // who had the claim may have fetched it
  if (found.ok()) return found;
  ASSIGN_OR_RETURN(Blob blob, far_.Get(key));
  IgnoreBecause(near_.PutBlob(key, blob), "the near store may lose anything");
  return blob;
}

absl::Status TieredBlobStore::Put(const Digest& key, absl::string_view bytes) {
  const KeyClaims::Claim claim(claims_, key);
  RETURN_IF_ERROR(far_.Put(key, bytes));
  if (!near_.Put(key, bytes).ok()) {
    // Too large for near, say: what it had before is stale now.
    return near_.Delete(key);
  }
  return absl::OkStatus();
}

absl::Status TieredBlobStore::Delete(const Digest& key) {
  const KeyClaims::Claim claim(claims_, key);
  RETURN_IF_ERROR(near_.Delete(key));
  return far_.Delete(key);
}

absl::Status TieredBlobStore::ScanFrom(
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  return far_.ScanFrom(from, visit);
}

}  // namespace kiln
