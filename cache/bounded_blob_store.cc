#include "cache/bounded_blob_store.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Keys that one Put may delete.
constexpr size_t kMostDeleted = 16;

}  // namespace

absl::Status BoundedBlobStore::Recount() {
  int64_t bytes = 0, blobs = 0;
  RETURN_IF_ERROR(inner_.Scan([&](const Digest&, int64_t size) {
    bytes += size;
    ++blobs;
    return absl::OkStatus();
  }));
  MutexLock lock(&mu_);
  bytes_ = bytes;
  blobs_ = blobs;
  return absl::OkStatus();
}

absl::StatusOr<Blob> BoundedBlobStore::Get(const Digest& key) const {
  return inner_.Get(key);
}

int64_t BoundedBlobStore::SizeOf(const Digest& key) const {
  const absl::StatusOr<Blob> blob = inner_.Get(key);
  return blob.ok() ? static_cast<int64_t>((*blob)->size()) : -1;
}

void BoundedBlobStore::Count(int64_t before, int64_t after) {
  MutexLock lock(&mu_);
  bytes_ += std::max<int64_t>(after, 0) - std::max<int64_t>(before, 0);
  blobs_ += (after >= 0 ? 1 : 0) - (before >= 0 ? 1 : 0);
}

absl::Status BoundedBlobStore::Put(const Digest& key, absl::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > budget_bytes_) {
    return MakeError(ErrorReason::kTooLarge,
                     absl::StrCat("blob ", key.ShortHex(), ": ", size,
                                  " bytes, the budget is ", budget_bytes_));
  }
  {
    const KeyClaims::Claim claim(claims_, key);
    const int64_t before = SizeOf(key);
    RETURN_IF_ERROR(inner_.Put(key, bytes));
    Count(before, size);
  }
  IgnoreBecause(MakeRoom(),
                "the blob is stored; the next Put makes room again");
  return absl::OkStatus();
}

absl::Status BoundedBlobStore::Delete(const Digest& key) {
  const KeyClaims::Claim claim(claims_, key);
  const int64_t before = SizeOf(key);
  RETURN_IF_ERROR(inner_.Delete(key));
  if (before >= 0) Count(before, -1);
  return absl::OkStatus();
}

absl::Status BoundedBlobStore::MakeRoom() {
  Digest from;
  int64_t over = 0;
  {
    MutexLock lock(&mu_);
    over = bytes_ - budget_bytes_;
    from = next_;
  }
  if (over <= 0) return absl::OkStatus();
  std::vector<Digest> victims;
  Digest next;
  const absl::Status scanned =
      inner_.ScanFrom(from, [&](const Digest& key, int64_t bytes) {
        next = key;
        if (over <= 0 || victims.size() == kMostDeleted)
          return absl::CancelledError();
        victims.push_back(key);
        over -= bytes;
        return absl::OkStatus();
      });
  const bool at_the_end = scanned.ok();
  if (!scanned.ok() && !absl::IsCancelled(scanned)) return scanned;
  for (const Digest& victim : victims) RETURN_IF_ERROR(Delete(victim));
  MutexLock lock(&mu_);
  next_ = at_the_end ? Digest() : next;
  return absl::OkStatus();
}

absl::Status BoundedBlobStore::ScanFrom(
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
  return inner_.ScanFrom(from, visit);
}

int64_t BoundedBlobStore::bytes() const {
  MutexLock lock(&mu_);
  return bytes_;
}

int64_t BoundedBlobStore::blobs() const {
  MutexLock lock(&mu_);
  return blobs_;
}

}  // namespace kiln
