#include "cache/tuning_cache.h"

#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "proto/cache_entry.pb.h"

namespace kiln {
namespace {

Digest StoreKey(const std::string& target, const std::string& key) {
  return Sha256()
      .AddField("kiln tuning 1")
      .AddField(target)
      .AddField(key)
      .Finish();
}

}  // namespace

absl::Status TuningCache::Load() {
  std::vector<Digest> keys;
  RETURN_IF_ERROR(store_.Scan([&keys](const Digest& key, int64_t) {
    keys.push_back(key);
    return absl::OkStatus();
  }));
  std::map<std::pair<std::string, std::string>, wire::TuningDecision> decisions;
  for (const Digest& key : keys) {
    const absl::StatusOr<Blob> blob = store_.Get(key);
    wire::TuningRecord record;
    wire::TuningDecision decision;
    if (blob.ok() && record.ParseFromString(**blob) &&
        decision.ParseFromString(record.decision())) {
      decisions[{record.target(), decision.key()}] = decision;
    }
  }
  MutexLock lock(&mu_);
  decisions_.swap(decisions);
  return absl::OkStatus();
}

std::vector<wire::TuningDecision> TuningCache::DecisionsFor(
    const wire::Target& target) const {
  const std::string bytes = DeterministicBytes(target);
  std::vector<wire::TuningDecision> found;
  MutexLock lock(&mu_);
  for (auto row = decisions_.lower_bound({bytes, ""});
       row != decisions_.end() && row->first.first == bytes; ++row) {
    found.push_back(row->second);
  }
  return found;
}

absl::Status TuningCache::Insert(const wire::Target& target,
                                 const wire::TuningDecision& decision) {
  wire::TuningRecord record;
  record.set_target(DeterministicBytes(target));
  record.set_decision(DeterministicBytes(decision));
  {
    MutexLock lock(&mu_);
    decisions_[{record.target(), decision.key()}] = decision;
  }
  return store_.Put(StoreKey(record.target(), decision.key()),
                    DeterministicBytes(record));
}

int64_t TuningCache::size() const {
  MutexLock lock(&mu_);
  return decisions_.size();
}

}  // namespace kiln
