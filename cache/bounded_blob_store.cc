#include "cache/bounded_blob_store.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/eviction_policy.h"
#include "proto/base/status.h"

namespace kiln {

absl::Status BoundedBlobStore::Load() {
  std::map<Digest, int64_t> sizes;
  int64_t total = 0;
  RETURN_IF_ERROR(inner_.Scan([&](const Digest& key, int64_t bytes) {
    sizes[key] = bytes;
    total += bytes;
    return absl::OkStatus();
  }));
  {
    MutexLock lock(&mu_);
    sizes_.swap(sizes);
    bytes_ = total;
  }
  return Evict();
}

absl::StatusOr<Blob> BoundedBlobStore::Get(const Digest& key) const {
  return inner_.Get(key);
}

absl::Status BoundedBlobStore::Put(const Digest& key, absl::string_view bytes) {
  const int64_t size = bytes.size();
  if (size > budget_bytes_) {
    return MakeError(ErrorReason::kTooLarge,
                     absl::StrCat("blob ", key.ShortHex(), ": ", size,
                                  " bytes, the budget is ", budget_bytes_));
  }
  ASSIGN_OR_RETURN(const bool over, PutOne(key, bytes));
  usage_.Touch(key);
  if (over) {
    IgnoreBecause(Evict(), "the blob is stored; the next Put evicts again");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BoundedBlobStore::PutOne(const Digest& key,
                                              absl::string_view bytes) {
  const KeyClaims::Claim claim(claims_, key);
  RETURN_IF_ERROR(inner_.Put(key, bytes));
  MutexLock lock(&mu_);
  int64_t& stored = sizes_[key];
  bytes_ += static_cast<int64_t>(bytes.size()) - stored;
  stored = static_cast<int64_t>(bytes.size());
  return bytes_ > budget_bytes_;
}

absl::Status BoundedBlobStore::Delete(const Digest& key) {
  const KeyClaims::Claim claim(claims_, key);
  RETURN_IF_ERROR(inner_.Delete(key));
  MutexLock lock(&mu_);
  const auto found = sizes_.find(key);
  if (found == sizes_.end()) return absl::OkStatus();
  bytes_ -= found->second;
  sizes_.erase(found);
  return absl::OkStatus();
}

absl::Status BoundedBlobStore::Scan(
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  return inner_.Scan(visit);
}

absl::Status BoundedBlobStore::Evict() {
  std::vector<Evictable> entries;
  {
    MutexLock lock(&mu_);
    entries.reserve(sizes_.size());
    for (const auto& [key, bytes] : sizes_) entries.push_back({key, bytes});
  }
  for (Evictable& entry : entries) {
    entry.last_used = usage_.LastUsed(entry.key);
  }
  for (const Digest& victim :
       ChooseVictims(std::move(entries), budget_bytes_)) {
    if (before_eviction_) before_eviction_(victim);
    RETURN_IF_ERROR(Delete(victim));
    MutexLock lock(&mu_);
    ++evicted_;
  }
  return absl::OkStatus();
}

int64_t BoundedBlobStore::bytes() const {
  MutexLock lock(&mu_);
  return bytes_;
}

int64_t BoundedBlobStore::blobs() const {
  MutexLock lock(&mu_);
  return sizes_.size();
}

int64_t BoundedBlobStore::evicted() const {
  MutexLock lock(&mu_);
  return evicted_;
}

}  // namespace kiln
