#include "cache/memory_blob_store.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<Blob> MemoryBlobStore::Get(const Digest& key) const {
  MutexLock lock(&mu_);
  const auto found = blobs_.find(key);
  if (found != blobs_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("blob ", key.ShortHex()));
}

absl::Status MemoryBlobStore::Put(const Digest& key, absl::string_view bytes) {
  Blob blob = std::make_shared<const std::string>(bytes);
  MutexLock lock(&mu_);
  blobs_[key].swap(blob);  // the old one is freed after the lock
  return absl::OkStatus();
}

absl::Status MemoryBlobStore::Delete(const Digest& key) {
  Blob removed;
  MutexLock lock(&mu_);
  const auto found = blobs_.find(key);
  if (found == blobs_.end()) return absl::OkStatus();
  removed = std::move(found->second);
  blobs_.erase(found);
  return absl::OkStatus();
}

absl::Status MemoryBlobStore::ScanFrom(
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  std::vector<std::pair<Digest, int64_t>> rows;
  {
    MutexLock lock(&mu_);
    for (auto row = blobs_.lower_bound(from); row != blobs_.end(); ++row)
      rows.emplace_back(row->first, row->second->size());
  }
  for (const auto& [key, bytes] : rows) RETURN_IF_ERROR(visit(key, bytes));
  return absl::OkStatus();
}

}  // namespace kiln
