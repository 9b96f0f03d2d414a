#include "cache/ledger.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/cache_entry.pb.h"

namespace kiln {
namespace {

// Rows written in one batch.
constexpr size_t kRowsAtOnce = 1000;

uint32_t Bounded(int64_t number) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::clamp<int64_t>(number, 0, kMost));
}

std::string UseRowOf(uint32_t used_unix_s, bool pinned) {
  wire::UseRow row;
  row.set_used_unix_s(used_unix_s);
  row.set_pinned(pinned);
  return row.SerializeAsString();
}

wire::LedgerRow ToWire(const StoredFacts& facts, uint32_t now) {
  wire::LedgerRow row;
  row.set_kind(facts.kind == StoredKind::kUnit ? wire::LedgerRow::KIND_UNIT
                                               : wire::LedgerRow::KIND_ENTRY);
  row.set_bytes(static_cast<uint64_t>(facts.bytes));
  row.set_rebuild_ms(Bounded(absl::ToInt64Milliseconds(facts.rebuild)));
  row.set_stored_unix_s(now);
  row.set_cache_namespace(facts.cache_namespace);
  if (facts.kind == StoredKind::kEntry) {
    row.set_build(facts.build.ToBytes());
    row.set_compile_key(facts.compile_key.ToBytes());
  }
  return row;
}

StoredFacts FromWire(const wire::LedgerRow& row) {
  StoredFacts facts;
  facts.kind = row.kind() == wire::LedgerRow::KIND_UNIT ? StoredKind::kUnit
                                                        : StoredKind::kEntry;
  facts.bytes = static_cast<int64_t>(row.bytes());
  facts.rebuild = absl::Milliseconds(row.rebuild_ms());
  facts.cache_namespace = row.cache_namespace();
  facts.build = Digest::FromBytes(row.build()).value_or(Digest());
  facts.compile_key = Digest::FromBytes(row.compile_key()).value_or(Digest());
  return facts;
}

// A build that was made up to have those of another might as well name the other.
uint32_t FirstBytesOf(const Digest& build) {
  uint32_t first = 0;
  std::memcpy(&first, build.bytes().data(), sizeof(first));
  return first;
}

}  // namespace

// Digests are as good as random already.
size_t Ledger::RowHash::operator()(const Digest& key) const {
  size_t hash = 0;
  std::memcpy(&hash, key.bytes().data(), sizeof(hash));
  return hash;
}

Ledger::Ledger(RowTable& facts, RowTable& uses, const Clock& clock,
               StorageBudgets budgets)
    : facts_(facts),
      uses_(uses),
      clock_(clock),
      begun_(clock.Now()),
      begun_steady_(clock.Steady()),
      namespaces_(std::move(budgets)) {}

absl::Time Ledger::Now() const {
  return begun_ + Between(begun_steady_, clock_.Steady());
}

uint32_t Ledger::NowSeconds() const {
  return Bounded(absl::ToUnixSeconds(Now()));
}

// By the last byte: tables are in order of the first ones, and whoever walks over a
// table is not to meet one lock for long.
Ledger::Shard& Ledger::ShardOf(const Digest& key) const {
  return shards_[static_cast<unsigned char>(key.bytes()[Digest::kBytes - 1]) %
                 kShards];
}

Ledger::Row Ledger::RowOf(const Digest& key, const StoredFacts& facts,
                          absl::Time used) {
  Row row;
  row.key = key;
  row.bytes_64 = Bounded((facts.bytes + kBytesBeside + 63) / 64);
  row.used_unix_s = Bounded(absl::ToUnixSeconds(used));
  row.rebuild_ms = Bounded(absl::ToInt64Milliseconds(facts.rebuild));
  row.build = FirstBytesOf(facts.build);
  row.is_unit = facts.kind == StoredKind::kUnit;
  return row;
}

void Ledger::Enter(Row& row, const std::string& cache_namespace) {
  if (!row.is_unit) row.name = namespaces_.Enter(cache_namespace, row.bytes());
  MutexLock lock(&mu_);
  (row.is_unit ? totals_.units : totals_.entries) += 1;
  (row.is_unit ? totals_.unit_bytes : totals_.entry_bytes) += row.bytes();
}

void Ledger::Leave(const Row& row) {
  if (row.pinned) namespaces_.Unpin(row.name, row.bytes());
  if (!row.is_unit) namespaces_.Leave(row.name, row.bytes());
  MutexLock lock(&mu_);
  (row.is_unit ? totals_.units : totals_.entries) -= 1;
  (row.is_unit ? totals_.unit_bytes : totals_.entry_bytes) -= row.bytes();
}

absl::Status Ledger::Add(const Digest& key, const StoredFacts& facts) {
  RETURN_IF_ERROR(
      facts_.Put({{key, ToWire(facts, NowSeconds()).SerializeAsString()}}));
  Row row = RowOf(key, facts, Now());
  row.seen = true;
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  const auto before = shard.rows.find(key);
  bool was_pinned = false;
  if (before != shard.rows.end()) {
    was_pinned = before->pinned;
    row.used_since_write = true;
    Leave(*before);
    shard.rows.erase(before);
  }
  Enter(row, facts.cache_namespace);
  row.pinned =
      was_pinned && !row.is_unit && namespaces_.Pin(row.name, row.bytes()).ok();
  shard.rows.insert(row);
  return absl::OkStatus();
}

// What the set goes by does not change: only the key is in hash and equality.
void Ledger::Touch(const Digest& key) {
  const uint32_t now = NowSeconds();
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  const auto found = shard.rows.find(key);
  if (found == shard.rows.end()) return;
  Row& row = const_cast<Row&>(*found);
  row.used_unix_s = now;
  row.used_since_write = true;
}

void Ledger::Forget(const Digest& key) {
  Shard& shard = ShardOf(key);
  {
    MutexLock lock(&shard.mu);
    const auto found = shard.rows.find(key);
    if (found != shard.rows.end()) {
      Leave(*found);
      shard.rows.erase(found);
    }
  }
  IgnoreBecause(facts_.Delete(key), "the next start finds no record");
  IgnoreBecause(uses_.Delete(key), "the next start finds no record");
}

absl::Status Ledger::SetPinned(const Digest& key, bool pinned) {
  Shard& shard = ShardOf(key);
  uint32_t used = 0;
  {
    MutexLock lock(&shard.mu);
    const auto found = shard.rows.find(key);
    if (found == shard.rows.end() || found->is_unit)
      return absl::NotFoundError(absl::StrCat("record ", key.ShortHex()));
    if (found->pinned == pinned) return absl::OkStatus();
    if (pinned) {
      RETURN_IF_ERROR(namespaces_.Pin(found->name, found->bytes()));
    } else {
      namespaces_.Unpin(found->name, found->bytes());
    }
    const_cast<Row&>(*found).pinned = pinned;
    used = found->used_unix_s;
  }
  return uses_.Put({{key, UseRowOf(used, pinned)}});
}

bool Ledger::Knows(const Digest& key) const {
  const Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  return shard.rows.contains(key);
}

bool Ledger::IsPinned(const Digest& key) const {
  const Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  const auto found = shard.rows.find(key);
  return found != shard.rows.end() && found->pinned;
}

absl::Time Ledger::LastUsed(const Digest& key) const {
  const Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  const auto found = shard.rows.find(key);
  return found == shard.rows.end() ? absl::InfinitePast()
                                   : absl::FromUnixSeconds(found->used_unix_s);
}

absl::StatusOr<StoredFacts> Ledger::FactsOf(const Digest& key) const {
  ASSIGN_OR_RETURN(const std::string bytes, facts_.Get(key));
  wire::LedgerRow row;
  if (!row.ParseFromString(bytes))
    return absl::NotFoundError(absl::StrCat("record ", key.ShortHex()));
  return FromWire(row);
}

LedgerTotals Ledger::totals() const {
  MutexLock lock(&mu_);
  return totals_;
}

void Ledger::NameLiveBuild(const Digest& build) {
  MutexLock lock(&mu_);
  live_builds_.insert(FirstBytesOf(build));
}

std::vector<Evictable> Ledger::ShardSample(int shard_number,
                                           const Filter& filter) const {
  std::set<uint32_t> live;
  {
    MutexLock lock(&mu_);
    live = live_builds_;
  }
  const absl::Time now = Now();
  const Shard& shard = shards_[shard_number];
  std::vector<Evictable> sample;
  MutexLock lock(&shard.mu);
  // Its own for as long as this shard, with its rows, is locked.
  std::optional<uint32_t> number;
  if (filter.cache_namespace != nullptr) {
    number = namespaces_.NumberOf(*filter.cache_namespace);
    if (!number.has_value()) return sample;
  }
  for (const Row& row : shard.rows) {
    if (row.pinned || (filter.entries_alone && row.is_unit)) continue;
    if (number.has_value() && (row.is_unit || row.name != *number)) continue;
    const absl::Duration unused = now - absl::FromUnixSeconds(row.used_unix_s);
    if (unused < filter.unused) continue;
    sample.push_back(
        {.key = row.key,
         .bytes = row.bytes(),
         .rebuild = absl::Milliseconds(row.rebuild_ms),
         .unused = unused,
         .stale = !row.is_unit && !live.empty() && live.count(row.build) == 0});
  }
  return sample;
}

std::vector<Digest> Ledger::EntriesOf(absl::string_view cache_namespace,
                                      int64_t most) const {
  std::vector<Digest> entries;
  for (const Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    const auto number = namespaces_.NumberOf(std::string(cache_namespace));
    if (!number.has_value()) return entries;
    for (const Row& row : shard.rows) {
      if (row.is_unit || row.name != *number) continue;
      if (static_cast<int64_t>(entries.size()) == most) return entries;
      entries.push_back(row.key);
    }
  }
  return entries;
}

absl::Status Ledger::LoadRows(const std::atomic<bool>& stop) {
  wire::LedgerRow stored;
  RETURN_IF_ERROR(facts_.Visit([&](const Digest& key, absl::string_view bytes) {
    if (stop) return absl::CancelledError("ledger: told to stop");
    if (!stored.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return absl::OkStatus();
    Row row = RowOf(key, FromWire(stored),
                    absl::FromUnixSeconds(stored.stored_unix_s()));
    row.loaded = true;
    Shard& shard = ShardOf(key);
    MutexLock lock(&shard.mu);
    if (shard.rows.contains(key)) return absl::OkStatus();
    Enter(row, stored.cache_namespace());
    shard.rows.insert(row);
    return absl::OkStatus();
  }));
  wire::UseRow use;
  return uses_.Visit([&](const Digest& key, absl::string_view bytes) {
    if (stop) return absl::CancelledError("ledger: told to stop");
    if (!use.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return absl::OkStatus();
    Shard& shard = ShardOf(key);
    MutexLock lock(&shard.mu);
    const auto found = shard.rows.find(key);
    if (found == shard.rows.end()) return absl::OkStatus();
    Row& row = const_cast<Row&>(*found);
    row.used_unix_s = std::max(row.used_unix_s, use.used_unix_s());
    if (use.pinned() && !row.pinned && !row.is_unit) {
      row.pinned = true;
      namespaces_.KeepPinned(row.name, row.bytes());
    }
    return absl::OkStatus();
  });
}

bool Ledger::MarkSeen(const Digest& key) {
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  const auto found = shard.rows.find(key);
  if (found == shard.rows.end()) return false;
  const_cast<Row&>(*found).seen = true;
  return true;
}

void Ledger::ForgetUnseen() {
  std::vector<Digest> unseen;
  for (const Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    for (const Row& row : shard.rows)
      if (row.loaded && !row.seen) unseen.push_back(row.key);
  }
  for (const Digest& key : unseen) Forget(key);
}

RowTable::Rows Ledger::TakeUses(Shard& shard) {
  RowTable::Rows rows;
  MutexLock lock(&shard.mu);
  for (const Row& row : shard.rows) {
    if (!row.used_since_write) continue;
    if (rows.size() == kRowsAtOnce) break;
    rows.emplace_back(row.key, UseRowOf(row.used_unix_s, row.pinned));
    const_cast<Row&>(row).used_since_write = false;
  }
  return rows;
}

absl::Status Ledger::WriteUses() {
  for (Shard& shard : shards_) {
    while (true) {
      const RowTable::Rows rows = TakeUses(shard);
      if (!rows.empty()) RETURN_IF_ERROR(uses_.Put(rows));
      if (rows.size() < kRowsAtOnce) break;
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
