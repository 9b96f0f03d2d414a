#include "cache/tuning_cache.h"

#include <algorithm>
#include <utility>

#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "proto/cache_entry.pb.h"

namespace kiln {
namespace {

// The version rises when choices change their meaning or go: Load passes by what
// is filed under another.
Digest StoreKey(const std::string& target, const std::string& key) {
  return Sha256()
      .AddField("kiln tuning 2")
      .AddField(target)
      .AddField(key)
      .Finish();
}

// What decisions are filed under: of the fields that this build knows.
std::string BytesOf(const wire::Target& target) {
  wire::Target known = target;
  known.DiscardUnknownFields();
  return DeterministicBytes(known);
}

// `decisions` with another in its place.
std::shared_ptr<const TuningDecisions> With(
    const std::shared_ptr<const TuningDecisions>& decisions,
    wire::TuningDecision added) {
  auto next = decisions == nullptr
                  ? std::make_shared<TuningDecisions>()
                  : std::make_shared<TuningDecisions>(*decisions);
  added.clear_seconds();
  added.clear_choices();
  const auto place = std::lower_bound(
      next->begin(), next->end(), added.key(),
      [](const wire::TuningDecision& decision, const std::string& key) {
        return decision.key() < key;
      });
  if (place != next->end() && place->key() == added.key()) {
    *place = std::move(added);
  } else {
    next->insert(place, std::move(added));
  }
  return next;
}

}  // namespace

absl::Status TuningCache::Load() {
  std::vector<Digest> keys;
  RETURN_IF_ERROR(store_.Scan([&keys](const Digest& key, int64_t) {
    keys.push_back(key);
    return absl::OkStatus();
  }));
  std::map<std::string, std::shared_ptr<const TuningDecisions>> decisions;
  for (const Digest& key : keys) {
    const absl::StatusOr<Blob> blob = store_.Get(key);
    wire::TuningRecord record;
    wire::TuningDecision decision;
    if (blob.ok() && record.ParseFromString(**blob) &&
        decision.ParseFromString(record.decision()) &&
        StoreKey(record.target(), decision.key()) == key) {
      auto& of_target = decisions[record.target()];
      of_target = With(of_target, std::move(decision));
    }
  }
  MutexLock lock(&mu_);
  decisions_.swap(decisions);
  return absl::OkStatus();
}

std::shared_ptr<const TuningDecisions> TuningCache::DecisionsFor(
    const wire::Target& target) const {
  static const auto& none =
      *new auto(std::make_shared<const TuningDecisions>());
  {
    MutexLock lock(&mu_);
    if (decisions_.empty()) return none;
  }
  const std::string bytes = BytesOf(target);
  MutexLock lock(&mu_);
  const auto found = decisions_.find(bytes);
  return found == decisions_.end() ? none : found->second;
}

absl::Status TuningCache::Insert(const wire::Target& target,
                                 const wire::TuningDecision& decision) {
  wire::TuningRecord record;
  record.set_target(BytesOf(target));
  record.set_decision(DeterministicBytes(decision));
  {
    MutexLock lock(&mu_);
    auto& of_target = decisions_[record.target()];
    of_target = With(of_target, decision);
  }
  return store_.Put(StoreKey(record.target(), decision.key()),
                    DeterministicBytes(record));
}

int64_t TuningCache::size() const {
  int64_t count = 0;
  MutexLock lock(&mu_);
  for (const auto& [target, decisions] : decisions_) count += decisions->size();
  return count;
}

}  // namespace kiln
