#include "cache/unit_cache.h"

#include <memory>
#include <utility>
#include <vector>

#include "proto/base/assemble.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Of a unit whose record does not say what it took: the usual time of a compiler.
constexpr absl::Duration kUsualBuild = absl::Seconds(1);

}  // namespace

Digest UnitCache::Key(const Digest& unit, const wire::Target& target,
                      absl::string_view toolchain) {
  return Sha256()
      .AddField("kiln object 1")
      .Add(unit.bytes())
      .AddField(DeterministicBytes(target))
      .AddField(toolchain)
      .Finish();
}

std::optional<wire::ObjectCode> UnitCache::Lookup(const Digest& key) const {
  const absl::StatusOr<Blob> blob = store_.Get(key);
  wire::ObjectCode object;
  if (!blob.ok() || !object.ParseFromString(**blob)) return std::nullopt;
  ledger_.Touch(key);
  return object;
}

void UnitCache::Fetch(const std::vector<Digest>& keys) {
  if (!far_.has_value()) return;
  const SteadyTime deadline = far_->tier.Deadline();
  for (const Digest& key : keys) {
    if (store_.Get(key).ok()) continue;
    const auto found = far_->tier.FindUnit(key, deadline);
    if (!found.has_value()) continue;
    IgnoreBecause(Note(key, static_cast<int64_t>(found->size())),
                  "the next start notes it");
    IgnoreBecause(far_->records.PutRecord(key, *found),
                  "what can't be kept is built again");
  }
}

absl::Status UnitCache::Add(const Digest& key, int64_t bytes,
                            absl::Duration build) {
  StoredFacts facts;
  facts.kind = StoredKind::kUnit;
  facts.bytes = bytes;
  facts.rebuild = build;
  return ledger_.Add(key, facts);
}

absl::Status UnitCache::Note(const Digest& key, int64_t record_bytes) {
  return Add(key, record_bytes, kUsualBuild);
}

absl::Status UnitCache::Evict(const Digest& key) { return store_.Delete(key); }

absl::Status UnitCache::Insert(const Digest& key,
                               const wire::ObjectCode& object,
                               absl::Duration build) {
  wire::ObjectCode stored = object;
  stored.clear_log();
  const auto payload =
      std::make_shared<const std::string>(DeterministicBytes(stored));
  if (far_.has_value()) far_->tier.PutUnit(key, payload);
  RETURN_IF_ERROR(Add(key, static_cast<int64_t>(payload->size()), build));
  return store_.Put(key, *payload);
}

absl::StatusOr<int64_t> UnitCache::Bytes() const {
  int64_t total = 0;
  RETURN_IF_ERROR(store_.Scan([&total](const Digest&, int64_t bytes) {
    total += bytes;
    return absl::OkStatus();
  }));
  return total;
}

absl::StatusOr<int64_t> UnitCache::Clear() {
  std::vector<std::pair<Digest, int64_t>> objects;
  RETURN_IF_ERROR(store_.Scan([&objects](const Digest& key, int64_t bytes) {
    objects.emplace_back(key, bytes);
    return absl::OkStatus();
  }));
  int64_t total = 0;
  for (const auto& [key, bytes] : objects) {
    RETURN_IF_ERROR(store_.Delete(key));
    total += bytes;
  }
  return total;
}

}  // namespace kiln
