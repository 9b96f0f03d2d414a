#include "cache/lru_blob_store.h"

#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<Blob> LruBlobStore::Get(const Digest& key) const {
  MutexLock lock(&mu_);
  const auto found = places_.find(key);
  if (found == places_.end())
    return absl::NotFoundError(absl::StrCat("blob ", key.ShortHex()));
  line_.splice(line_.begin(), line_, found->second);
  return found->second->second;
}

void LruBlobStore::Remove(Line::iterator place, Line& removed) {
  bytes_ -= static_cast<int64_t>(place->second->size());
  places_.erase(place->first);
  removed.splice(removed.begin(), line_, place);
}

absl::Status LruBlobStore::CheckSize(const Digest& key, size_t bytes) const {
  if (static_cast<int64_t>(bytes) <= budget_bytes_) return absl::OkStatus();
  return MakeError(ErrorReason::kTooLarge,
                   absl::StrCat("blob ", key.ShortHex(), ": ", bytes,
                                " bytes, the budget is ", budget_bytes_));
}

absl::Status LruBlobStore::Put(const Digest& key, absl::string_view bytes) {
  // Before its bytes are copied.
  RETURN_IF_ERROR(CheckSize(key, bytes.size()));
  return PutBlob(key, std::make_shared<const std::string>(bytes));
}

absl::Status LruBlobStore::PutBlob(const Digest& key, const Blob& blob) {
  RETURN_IF_ERROR(CheckSize(key, blob->size()));
  Line removed;
  MutexLock lock(&mu_);
  const auto before = places_.find(key);
  if (before != places_.end()) Remove(before->second, removed);
  line_.emplace_front(key, blob);
  places_[key] = line_.begin();
  bytes_ += static_cast<int64_t>(blob->size());
  while (bytes_ > budget_bytes_) Remove(std::prev(line_.end()), removed);
  return absl::OkStatus();
}

absl::Status LruBlobStore::Delete(const Digest& key) {
  Line removed;
  MutexLock lock(&mu_);
  const auto found = places_.find(key);
  if (found != places_.end()) Remove(found->second, removed);
  return absl::OkStatus();
}

absl::Status LruBlobStore::ScanFrom(
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  std::map<Digest, int64_t> rows;
  {
    MutexLock lock(&mu_);
    for (const auto& [key, blob] : line_)
      if (key >= from) rows[key] = static_cast<int64_t>(blob->size());
  }
  for (const auto& [key, bytes] : rows) RETURN_IF_ERROR(visit(key, bytes));
  return absl::OkStatus();
}

int64_t LruBlobStore::bytes() const {
  MutexLock lock(&mu_);
  return bytes_;
}

int64_t LruBlobStore::blobs() const {
  MutexLock lock(&mu_);
  return static_cast<int64_t>(line_.size());
}

}  // namespace kiln
