#include "cache/usage_log.h"

#include <string>
#include <utility>
#include <vector>

#include "proto/base/status.h"

namespace kiln {
namespace {

std::string Encode(absl::Time time) {
  uint64_t millis = absl::ToUnixMillis(time);
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(millis >> (8 * i));
  return bytes;
}

absl::Time Decode(absl::string_view bytes) {
  uint64_t millis = 0;
  for (int i = 0; i < 8; ++i) {
    millis |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i]))
              << (8 * i);
  }
  return absl::FromUnixMillis(static_cast<int64_t>(millis));
}

}  // namespace

absl::Status UsageLog::Load() {
  if (store_ == nullptr) return absl::OkStatus();
  std::map<Digest, Use> uses;
  RETURN_IF_ERROR(store_->Scan([&](const Digest& key, int64_t bytes) {
    const absl::StatusOr<Blob> row = store_->Get(key);
    if (row.ok() && (*row)->size() == 8) {
      const absl::Time time = Decode(**row);
      uses[key] = {time, time};
    }
    return absl::OkStatus();
  }));
  MutexLock lock(&mu_);
  uses_.swap(uses);
  return absl::OkStatus();
}

void UsageLog::Touch(const Digest& key) {
  const absl::Time now = clock_.Now();
  {
    MutexLock lock(&mu_);
    Use& use = uses_[key];
    use.last = now;
    if (store_ == nullptr || now - use.written < kWriteEvery) return;
    use.written = now;
  }
  IgnoreBecause(store_->Put(key, Encode(now)),
                "a lost time makes an entry look older, no more");
}

void UsageLog::Forget(const Digest& key) {
  {
    MutexLock lock(&mu_);
    uses_.erase(key);
  }
  if (store_ == nullptr) return;
  IgnoreBecause(store_->Delete(key), "a stale row is swept at the next start");
}

void UsageLog::Retain(const std::set<Digest>& keys) {
  std::vector<Digest> stale;
  {
    MutexLock lock(&mu_);
    for (const auto& [key, use] : uses_) {
      if (keys.count(key) == 0) stale.push_back(key);
    }
  }
  for (const Digest& key : stale) Forget(key);
}

absl::Time UsageLog::LastUsed(const Digest& key) const {
  MutexLock lock(&mu_);
  const auto found = uses_.find(key);
  return found == uses_.end() ? absl::InfinitePast() : found->second.last;
}

}  // namespace kiln
