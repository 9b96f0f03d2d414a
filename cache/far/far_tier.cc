#include "cache/far/far_tier.h"

#include <algorithm>

#include "cache/entry_facts.h"
#include "cache/far/far_record.h"
#include "proto/base/bounded_log.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The hint was there and its record is not, or is of no use: so many are tried.
constexpr int kMaxRecordsRead = 3;

}  // namespace

FarTier::FarTier(const Options& options, std::shared_ptr<FarStore> store,
                 std::shared_ptr<const KeyRing> keys)
    : options_(options),
      keys_(std::move(keys)),
      store_(std::move(store)),
      writer_(*store_, keys_,
              {.queue_bytes = options.queue_bytes,
               .max_record_bytes = options.max_record_bytes,
               .namespace_budgets = options.namespace_budgets,
               .ttl = options.ttl},
              counts_) {
  writer_.QueueCall([this](SteadyTime deadline) { Connect(deadline); });
}

void FarTier::Connect(SteadyTime deadline) {
  const absl::Status connected = store_->Connect(deadline);
  if (connected.ok() || store_->WasLeftAlone(connected)) return;
  ++(absl::IsDeadlineExceeded(connected) ? counts_.timeouts : counts_.errors);
  LogWarning("far.not_connected", {{"error", connected.ToString()}});
}

std::optional<FarTier::Entry> FarTier::FindEntry(
    const Digest& key, absl::string_view cache_namespace,
    absl::FunctionRef<bool(const wire::EntryFacts&)> serves,
    SteadyTime deadline) {
  auto hints = store_->Hints(key, deadline);
  if (!hints.ok()) {
    CountFailure(key, hints.status());
    return std::nullopt;
  }
  struct Candidate {
    int64_t created_unix_ms;
    FarHint* hint;
  };
  std::vector<Candidate> candidates;
  for (FarHint& hint : *hints) {
    const auto facts = ReadHint(key, hint);
    if (!facts.ok()) {
      Refuse(key, facts.status());
    } else if (serves(*facts)) {
      candidates.push_back({facts->created_unix_ms(), &hint});
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.created_unix_ms > b.created_unix_ms;
            });
  if (candidates.size() > kMaxRecordsRead) candidates.resize(kMaxRecordsRead);
  for (const Candidate& candidate : candidates) {
    FarHint& hint = *candidate.hint;
    // ReadHint compared it with a digest.
    const Digest id = *Digest::FromBytes(hint.id);
    absl::StatusOr<std::string> record = hint.record.empty()
                                             ? store_->Get({key, id}, deadline)
                                             : std::move(hint.record);
    if (absl::IsNotFound(record.status())) continue;
    if (!record.ok()) {
      CountFailure(key, record.status());
      return std::nullopt;
    }
    auto entry = OpenFarEntry(key, id, *record, *keys_->trusted());
    if (!entry.ok()) {
      Refuse(key, entry.status());
      continue;
    }
    // The hint's word for it is worth nothing.
    if (!serves(entry->facts()) || !IsOf(entry->key(), cache_namespace))
      continue;
    ++counts_.hits;
    return Entry{*std::move(entry), *std::move(record)};
  }
  ++counts_.misses;
  return std::nullopt;
}

std::optional<std::string> FarTier::FindUnit(const Digest& key,
                                             SteadyTime deadline) {
  absl::StatusOr<std::string> record =
      store_->Get({key, std::nullopt}, deadline);
  if (absl::IsNotFound(record.status())) {
    ++counts_.misses;
    return std::nullopt;
  }
  if (!record.ok()) {
    CountFailure(key, record.status());
    return std::nullopt;
  }
  const absl::Status sound = CheckFarUnit(key, *record, *keys_->trusted());
  if (!sound.ok()) {
    Refuse(key, sound);
    ++counts_.misses;
    return std::nullopt;
  }
  ++counts_.hits;
  return *std::move(record);
}

void FarTier::PutEntry(const Digest& key, absl::string_view cache_namespace,
                       const wire::EntryFacts& facts, Blob payload) {
  std::string hint = HintOf(facts);
  const auto id = Digest::FromBytes(facts.entry_id());
  if (!id.has_value() || hint.size() > kMaxHintBytes) {
    ++counts_.writes_dropped;
    return;
  }
  writer_.Queue({{key, *id},
                 std::string(cache_namespace),
                 std::move(hint),
                 std::move(payload)});
}

void FarTier::PutUnit(const Digest& key, Blob payload) {
  writer_.Queue({{key, std::nullopt}, "", "", std::move(payload)});
}

void FarTier::CountFailure(const Digest& key, const absl::Status& why) {
  if (store_->WasLeftAlone(why)) {
    ++counts_.breaker_open;
    return;
  }
  // One that is too large, or whose answer makes no sense.
  if (absl::IsOutOfRange(why) || absl::IsDataLoss(why)) return Refuse(key, why);
  ++(absl::IsDeadlineExceeded(why) ? counts_.timeouts : counts_.errors);
  LogBounded("far.read_failed", key.ShortHex(), why.ToString());
}

void FarTier::Refuse(const Digest& key, const absl::Status& why) {
  ++counts_.refused;
  LogBounded("far.refused", key.ShortHex(), why.ToString());
  if (options_.on_refused != nullptr) options_.on_refused(key, why);
}

std::vector<std::pair<std::string, int64_t>> FarTier::Counters() const {
  return {
      {"far.breaker_open", counts_.breaker_open},
      {"far.errors", counts_.errors},
      {"far.hits", counts_.hits},
      {"far.misses", counts_.misses},
      {"far.over_budget", counts_.over_budget},
      {"far.refused", counts_.refused},
      {"far.timeouts", counts_.timeouts},
      {"far.writes", counts_.writes},
      {"far.writes_dropped", counts_.writes_dropped},
  };
}

}  // namespace kiln
