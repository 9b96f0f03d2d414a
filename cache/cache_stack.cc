#include "cache/cache_stack.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cache/bounded_blob_store.h"
#include "cache/forgetting_blob_store.h"
#include "cache/ledger.h"
#include "cache/ledger_loading.h"
#include "cache/lru_blob_store.h"
#include "cache/memory_blob_store.h"
#include "cache/metered_blob_store.h"
#include "cache/rocksdb_blob_store.h"
#include "cache/ticker.h"
#include "cache/tiered_blob_store.h"
#include "cache/upkeep.h"
#include "cache/verified_blob_store.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int64_t kQuarantineBytes = int64_t{64} << 20;
// Of all graphs' texts, for people; and of indexes held ready in memory.
constexpr int64_t kGraphBytes = int64_t{256} << 20;
constexpr int64_t kIndexMemoryBytes = int64_t{8} << 20;

// The ground: tables of a database, or of memory when there is no folder.
struct Tables {
  std::unique_ptr<RocksDb> db;  // outlives the stores
  std::unique_ptr<BlobStore> entries, indexes, graphs, units, tuning,
      quarantine;
  std::unique_ptr<RowTable> ledger, uses;
};

absl::StatusOr<Tables> OpenTables(const CacheOptions& options) {
  Tables tables;
  if (!options.folder.empty()) {
    ASSIGN_OR_RETURN(
        tables.db,
        RocksDb::Open(options.folder, {.min_free_bytes = options.min_free_bytes,
                                       .sync_every = options.sync_every,
                                       .env = options.env}));
  }
  const auto open =
      [&tables](RocksDbTable table) -> std::unique_ptr<BlobStore> {
    if (tables.db != nullptr) return tables.db->Store(table);
    return std::make_unique<MemoryBlobStore>();
  };
  tables.entries = open(RocksDbTable::kEntries);
  tables.indexes = open(RocksDbTable::kIndexes);
  tables.graphs = open(RocksDbTable::kGraphs);
  tables.units = open(RocksDbTable::kUnits);
  tables.tuning = open(RocksDbTable::kTuning);
  tables.quarantine = open(RocksDbTable::kQuarantine);
  const auto rows = [&tables](RocksDbTable table) -> std::unique_ptr<RowTable> {
    if (tables.db != nullptr) return tables.db->Rows(table);
    return std::make_unique<MemoryRows>();
  };
  tables.ledger = rows(RocksDbTable::kLedger);
  tables.uses = rows(RocksDbTable::kUses);
  return tables;
}

// A disk that breaks a database so often is not to be trusted with another.
constexpr size_t kMostPutAside = 8;

// Those of FOLDER.broken-1, FOLDER.broken-2, ... that are there, by number.
std::map<int64_t, std::filesystem::path> BrokenFolders(
    const std::filesystem::path& folder) {
  std::map<int64_t, std::filesystem::path> broken;
  const std::string prefix =
      absl::StrCat(folder.filename().string(), ".broken-");
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    int64_t n = 0;
    if (absl::ConsumePrefix(&number, prefix) && absl::SimpleAtoi(number, &n)) {
      broken.emplace(n, entry.path());
    }
  }
  return broken;
}

// Renames a database that can't be read. Nothing that was put aside is removed:
// who brings about a second damage must not be able to remove what the first left.
absl::Status PutAside(const std::filesystem::path& folder,
                      const absl::Status& why) {
  const auto before = BrokenFolders(folder);
  const int64_t n = before.empty() ? 1 : before.rbegin()->first + 1;
  if (before.size() >= kMostPutAside) {
    return MakeError(
        ErrorReason::kStorage,
        absl::StrCat(why.message(), "; found ", before.size(),
                     " damaged ones put aside as ", folder.string(),
                     ".broken-N: look at the disk, and remove them"));
  }
  const std::string aside = absl::StrCat(folder.string(), ".broken-", n);
  std::error_code error;
  std::filesystem::rename(folder, aside, error);
  if (error) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat(why.message(), "; it can't be put aside as ",
                                  aside, ": ", error.message()));
  }
  LogWarning("cache.put_aside", {{"folder", folder.string()},
                                 {"as", aside},
                                 {"because", why.ToString()}});
  return absl::OkStatus();
}

std::unique_ptr<FarTier> FarTierOf(const CacheOptions& options,
                                   const std::shared_ptr<const KeyRing>& keys) {
  if (options.far_store == nullptr) return nullptr;
  return std::make_unique<FarTier>(options.far, options.far_store, keys);
}

}  // namespace

// In the order in which each stands on those before it.
struct CacheStack::Layers {
  Layers(const CacheOptions& options, Tables ground,
         const std::shared_ptr<const KeyRing>& keys, const Clock& clock)
      : tables(std::move(ground)),
        quarantine(*tables.quarantine, kQuarantineBytes),
        ledger(*tables.ledger, *tables.uses, clock, options.budgets),
        entry_meter(*tables.entries),
        entry_forgetting(entry_meter, ledger),
        entry_verified(entry_forgetting, quarantine, keys, options.on_refused),
        memory(options.memory_bytes),
        entry_tiers(memory, entry_verified),
        index_verified(*tables.indexes, quarantine, keys, options.on_refused),
        index_memory(kIndexMemoryBytes),
        index_tiers(index_memory, index_verified),
        graph_bound(*tables.graphs, kGraphBytes),
        graph_verified(graph_bound, quarantine, keys, options.on_refused),
        unit_meter(*tables.units),
        unit_forgetting(unit_meter, ledger),
        unit_verified(unit_forgetting, quarantine, keys, options.on_refused),
        tuning_verified(*tables.tuning, quarantine, keys, options.on_refused),
        far(FarTierOf(options, keys)),
        artifacts({.entries = {entry_tiers, entry_verified, &memory},
                   .indexes = {index_tiers, index_verified, &index_memory},
                   .graphs = graph_verified,
                   .ledger = ledger,
                   .keys = *keys,
                   .far = far.get(),
                   .records = &entry_verified,
                   .on_refused = options.on_refused}),
        units(unit_verified, ledger, FarOfUnits()),
        tuning(tuning_verified),
        near({.artifacts = artifacts,
              .unit_cache = units,
              .entries = entry_verified,
              .units = unit_verified,
              .ledger = ledger,
              .keys = *keys}),
        evictor(ledger, options.budgets,
                [this](const Digest& key) { return Evict(key); }),
        upkeep({.ledger = ledger,
                .evictor = evictor,
                .db = tables.db.get(),
                .bounded = {&quarantine, &graph_bound},
                .load =
                    [this](const std::atomic<bool>& stop) {
                      return LoadLedger(ledger,
                                        {.entries = *tables.entries,
                                         .units = *tables.units,
                                         .artifacts = artifacts,
                                         .unit_cache = units},
                                        stop);
                    },
                .clock = clock,
                .budget_bytes = options.budgets.bytes}) {}

  // What was used is known the next time, too.
  ~Layers() {
    ticker.reset();
    IgnoreBecause(ledger.WriteUses(), "a lost use makes a record look older");
  }

  absl::Status Evict(const Digest& key) {
    const absl::StatusOr<StoredFacts> facts = ledger.FactsOf(key);
    return facts.ok() && facts->kind == StoredKind::kUnit
               ? units.Evict(key)
               : artifacts.Evict(key);
  }

  std::optional<UnitCache::Far> FarOfUnits() {
    if (far == nullptr) return std::nullopt;
    return UnitCache::Far{*far, unit_verified};
  }

  int64_t Sum(int64_t (VerifiedBlobStore::*count)() const) const {
    int64_t sum = 0;
    for (const VerifiedBlobStore* store :
         {&entry_verified, &index_verified, &graph_verified, &unit_verified,
          &tuning_verified})
      sum += (store->*count)();
    return sum;
  }

  const Tables tables;
  BoundedBlobStore quarantine;
  Ledger ledger;
  MeteredBlobStore entry_meter;
  ForgettingBlobStore entry_forgetting;
  VerifiedBlobStore entry_verified;
  LruBlobStore memory;
  TieredBlobStore entry_tiers;
  VerifiedBlobStore index_verified;
  LruBlobStore index_memory;
  TieredBlobStore index_tiers;
  BoundedBlobStore graph_bound;
  VerifiedBlobStore graph_verified;
  MeteredBlobStore unit_meter;
  ForgettingBlobStore unit_forgetting;
  VerifiedBlobStore unit_verified;
  VerifiedBlobStore tuning_verified;
  const std::unique_ptr<FarTier> far;  // or null
  ArtifactCache artifacts;
  UnitCache units;
  TuningCache tuning;
  NearRecords near;
  Evictor evictor;
  Upkeep upkeep;
  std::optional<Ticker> ticker;  // last: it uses the rest
};

absl::StatusOr<std::unique_ptr<CacheStack>> CacheStack::Open(
    const CacheOptions& options, std::shared_ptr<const KeyRing> keys,
    const Clock& clock) {
  auto opened = OpenSound(options, keys, clock);
  if (ReasonOf(opened.status()) != ErrorReason::kArtifactCorrupt) return opened;
  RETURN_IF_ERROR(PutAside(options.folder, opened.status()));
  opened = OpenSound(options, keys, clock);
  if (opened.ok()) (*opened)->put_aside_ = 1;
  return opened;
}

absl::StatusOr<std::unique_ptr<CacheStack>> CacheStack::OpenSound(
    const CacheOptions& options, const std::shared_ptr<const KeyRing>& keys,
    const Clock& clock) {
  ASSIGN_OR_RETURN(Tables tables, OpenTables(options));
  auto layers =
      std::make_unique<Layers>(options, std::move(tables), keys, clock);
  RETURN_IF_ERROR(layers->tuning.Load());
  if (options.tidy_every > absl::ZeroDuration()) {
    layers->ticker.emplace(
        options.tidy_every,
        [upkeep = &layers->upkeep](const std::atomic<bool>& stop) {
          upkeep->Round(stop);
        });
  }
  return std::unique_ptr<CacheStack>(new CacheStack(std::move(layers)));
}

CacheStack::CacheStack(std::unique_ptr<Layers> layers)
    : layers_(std::move(layers)) {}

CacheStack::~CacheStack() = default;

ArtifactCache& CacheStack::artifacts() { return layers_->artifacts; }
UnitCache& CacheStack::units() { return layers_->units; }
TuningCache& CacheStack::tuning() { return layers_->tuning; }
NearRecords& CacheStack::near_records() { return layers_->near; }
FarTier* CacheStack::far() { return layers_->far.get(); }

absl::Status CacheStack::Scrub(
    bool mend, const std::atomic<bool>& stop,
    const std::function<void(const ScrubReport&)>& tell) {
  Layers& layers = *layers_;
  const kiln::Scrub scrub(
      {.artifacts = layers.artifacts,
       .entries = layers.entry_verified,
       .indexes = layers.index_verified,
       .others = {&layers.tuning_verified, &layers.graph_verified,
                  &layers.unit_verified}});
  // What it changes would be refused while the database is mended.
  return layers.upkeep.WithoutMending(
      [&] { return scrub.Run(mend, stop, tell); });
}

absl::Status CacheStack::Compact(const std::atomic<bool>& stop) {
  return layers_->upkeep.Compact(stop);
}

int64_t CacheStack::PhysicalBytes() const {
  const RocksDb* const db = layers_->tables.db.get();
  return db == nullptr ? 0 : db->PhysicalBytes();
}

int64_t CacheStack::records() const {
  const LedgerTotals totals = layers_->ledger.totals();
  return 2 * totals.entries + totals.units;
}

void CacheStack::Tidy() {
  const std::atomic<bool> never{false};
  layers_->upkeep.Round(never);
}

bool CacheStack::writable() const {
  return layers_->tables.db == nullptr || layers_->tables.db->writable();
}

std::vector<std::pair<std::string, int64_t>> CacheStack::Counters() const {
  const StoreCounts artifacts = layers_->entry_meter.counts();
  const StoreCounts units = layers_->unit_meter.counts();
  const LedgerTotals totals = layers_->ledger.totals();
  std::vector<std::pair<std::string, int64_t>> counters = {
      {"cache.artifacts.bytes", totals.entry_bytes},
      {"cache.artifacts.entries", totals.entries},
      {"cache.artifacts.evicted", layers_->evictor.evicted_entries()},
      {"cache.artifacts.pinned", layers_->ledger.pinned()},
      {"cache.artifacts.disk_reads", artifacts.gets},
      {"cache.artifacts.disk_read_bytes", artifacts.bytes_read},
      {"cache.artifacts.disk_writes", artifacts.puts},
      {"cache.artifacts.disk_written_bytes", artifacts.bytes_written},
      {"cache.artifacts.disk_failures", artifacts.failures},
      {"cache.loaded", layers_->upkeep.loaded() ? 1 : 0},
      {"cache.memory.bytes", layers_->memory.bytes()},
      {"cache.memory.keys", layers_->memory.blobs()},
      {"cache.units.bytes", totals.unit_bytes},
      {"cache.units.objects", totals.units},
      {"cache.units.evicted", layers_->evictor.evicted_units()},
      {"cache.units.disk_reads", units.gets},
      {"cache.units.hits", units.found},
      {"cache.units.disk_writes", units.puts},
      {"cache.units.disk_failures", units.failures},
      {"cache.tuning.decisions", layers_->tuning.size()},
      {"cache.broken", layers_->Sum(&VerifiedBlobStore::broken)},
      {"cache.other_versions",
       layers_->Sum(&VerifiedBlobStore::other_versions)},
      {"cache.put_aside", put_aside_},
      {"cache.quarantine.records", layers_->quarantine.blobs()},
      {"cache.quarantine.bytes", layers_->quarantine.bytes()},
      {"cache.writable", writable() ? 1 : 0},
  };
  if (layers_->tables.db != nullptr) {
    counters.emplace_back("cache.mended", layers_->tables.db->mended());
    for (auto& counter : layers_->tables.db->Counters())
      counters.push_back(std::move(counter));
  }
  if (layers_->far != nullptr) {
    for (auto& counter : layers_->far->Counters())
      counters.push_back(std::move(counter));
  }
  std::sort(counters.begin(), counters.end());
  return counters;
}

}  // namespace kiln
