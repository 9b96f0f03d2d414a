#include "cache/cache_stack.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cache/bounded_blob_store.h"
#include "cache/memory_blob_store.h"
#include "cache/metered_blob_store.h"
#include "cache/rocksdb_blob_store.h"
#include "cache/tiered_blob_store.h"
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
  std::unique_ptr<BlobStore> entries, entry_usage, indexes, graphs, units,
      unit_usage, tuning, quarantine;
};

absl::StatusOr<Tables> OpenTables(const CacheOptions& options) {
  Tables tables;
  if (!options.folder.empty()) {
    ASSIGN_OR_RETURN(tables.db,
                     RocksDb::Open(options.folder,
                                   {.min_free_bytes = options.min_free_bytes}));
  }
  const auto open =
      [&tables](RocksDbTable table) -> std::unique_ptr<BlobStore> {
    if (tables.db != nullptr) return tables.db->Store(table);
    return std::make_unique<MemoryBlobStore>();
  };
  tables.entries = open(RocksDbTable::kEntries);
  tables.entry_usage = open(RocksDbTable::kEntryUsage);
  tables.indexes = open(RocksDbTable::kIndexes);
  tables.graphs = open(RocksDbTable::kGraphs);
  tables.units = open(RocksDbTable::kUnits);
  tables.unit_usage = open(RocksDbTable::kUnitUsage);
  tables.tuning = open(RocksDbTable::kTuning);
  tables.quarantine = open(RocksDbTable::kQuarantine);
  return tables;
}

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

// Renames a database that can't be read, and removes the one put aside before.
// What is kept is for whoever wants to know what broke it.
absl::Status PutAside(const std::filesystem::path& folder,
                      const absl::Status& why) {
  const auto before = BrokenFolders(folder);
  const int64_t n = before.empty() ? 1 : before.rbegin()->first + 1;
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
  for (const auto& [number, path] : before) {
    std::filesystem::remove_all(path, error);
  }
  return absl::OkStatus();
}

// Loads a bounded store and its log, and drops times of keys that are gone.
absl::Status LoadBounded(UsageLog& usage, BoundedBlobStore& store) {
  RETURN_IF_ERROR(usage.Load());
  RETURN_IF_ERROR(store.Load());
  std::set<Digest> keys;
  RETURN_IF_ERROR(store.Scan([&keys](const Digest& key, int64_t) {
    keys.insert(key);
    return absl::OkStatus();
  }));
  usage.Retain(keys);
  return absl::OkStatus();
}

}  // namespace

// In the order in which each stands on those before it.
struct CacheStack::Layers {
  Layers(const CacheOptions& options, Tables ground, const SigningKey& signer,
         const std::vector<PublicKey>& trusted, const Clock& clock)
      : tables(std::move(ground)),
        quarantine_usage(nullptr, clock),
        quarantine(*tables.quarantine, quarantine_usage, kQuarantineBytes),
        entry_usage(tables.entry_usage.get(), clock),
        entry_meter(*tables.entries),
        entry_bound(entry_meter, entry_usage, options.artifact_bytes),
        entry_verified(entry_bound, quarantine, signer, trusted),
        memory_bound(memory, entry_usage, options.memory_bytes),
        entry_tiers(memory_bound, entry_verified),
        index_verified(*tables.indexes, quarantine, signer, trusted),
        index_usage(nullptr, clock),
        index_memory_bound(index_memory, index_usage, kIndexMemoryBytes),
        index_tiers(index_memory_bound, index_verified),
        graph_usage(nullptr, clock),
        graph_bound(*tables.graphs, graph_usage, kGraphBytes),
        graph_verified(graph_bound, quarantine, signer, trusted),
        unit_usage(tables.unit_usage.get(), clock),
        unit_meter(*tables.units),
        unit_bound(unit_meter, unit_usage, options.unit_bytes),
        unit_verified(unit_bound, quarantine, signer, trusted),
        tuning_verified(*tables.tuning, quarantine, signer, trusted),
        artifacts({.entries = {entry_tiers, entry_verified},
                   .indexes = {index_tiers, index_verified},
                   .graphs = graph_verified,
                   .usage = entry_usage,
                   .clock = clock}),
        units(unit_verified, unit_usage),
        tuning(tuning_verified) {
    entry_bound.CallBeforeEviction(
        [this](const Digest& id) { artifacts.BeforeEviction(id); });
    unit_bound.CallBeforeEviction(
        [this](const Digest& key) { unit_usage.Forget(key); });
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
  UsageLog quarantine_usage;
  BoundedBlobStore quarantine;
  UsageLog entry_usage;
  MeteredBlobStore entry_meter;
  BoundedBlobStore entry_bound;
  VerifiedBlobStore entry_verified;
  MemoryBlobStore memory;
  BoundedBlobStore memory_bound;
  TieredBlobStore entry_tiers;
  VerifiedBlobStore index_verified;
  UsageLog index_usage;
  MemoryBlobStore index_memory;
  BoundedBlobStore index_memory_bound;
  TieredBlobStore index_tiers;
  UsageLog graph_usage;
  BoundedBlobStore graph_bound;
  VerifiedBlobStore graph_verified;
  UsageLog unit_usage;
  MeteredBlobStore unit_meter;
  BoundedBlobStore unit_bound;
  VerifiedBlobStore unit_verified;
  VerifiedBlobStore tuning_verified;
  ArtifactCache artifacts;
  UnitCache units;
  TuningCache tuning;
};

absl::StatusOr<std::unique_ptr<CacheStack>> CacheStack::Open(
    const CacheOptions& options, SigningKey signer,
    std::vector<PublicKey> also_trusted, const Clock& clock) {
  auto opened = OpenSound(options, signer, also_trusted, clock);
  if (ReasonOf(opened.status()) != ErrorReason::kArtifactCorrupt) return opened;
  RETURN_IF_ERROR(PutAside(options.folder, opened.status()));
  opened = OpenSound(options, signer, also_trusted, clock);
  if (opened.ok()) (*opened)->put_aside_ = 1;
  return opened;
}

absl::StatusOr<std::unique_ptr<CacheStack>> CacheStack::OpenSound(
    const CacheOptions& options, const SigningKey& signer,
    const std::vector<PublicKey>& also_trusted, const Clock& clock) {
  ASSIGN_OR_RETURN(Tables tables, OpenTables(options));
  auto layers = std::make_unique<Layers>(options, std::move(tables), signer,
                                         also_trusted, clock);
  RETURN_IF_ERROR(layers->quarantine.Load());
  RETURN_IF_ERROR(LoadBounded(layers->entry_usage, layers->entry_bound));
  RETURN_IF_ERROR(layers->graph_bound.Load());
  RETURN_IF_ERROR(LoadBounded(layers->unit_usage, layers->unit_bound));
  RETURN_IF_ERROR(layers->tuning.Load());
  return std::unique_ptr<CacheStack>(new CacheStack(std::move(layers)));
}

CacheStack::CacheStack(std::unique_ptr<Layers> layers)
    : layers_(std::move(layers)) {}

CacheStack::~CacheStack() = default;

ArtifactCache& CacheStack::artifacts() { return layers_->artifacts; }
UnitCache& CacheStack::units() { return layers_->units; }
TuningCache& CacheStack::tuning() { return layers_->tuning; }

std::vector<std::pair<std::string, int64_t>> CacheStack::Counters() const {
  const StoreCounts artifacts = layers_->entry_meter.counts();
  const StoreCounts units = layers_->unit_meter.counts();
  std::vector<std::pair<std::string, int64_t>> counters = {
      {"cache.artifacts.bytes", layers_->entry_bound.bytes()},
      {"cache.artifacts.entries", layers_->entry_bound.blobs()},
      {"cache.artifacts.evicted", layers_->entry_bound.evicted()},
      {"cache.artifacts.disk_reads", artifacts.gets},
      {"cache.artifacts.disk_read_bytes", artifacts.bytes_read},
      {"cache.artifacts.disk_writes", artifacts.puts},
      {"cache.artifacts.disk_written_bytes", artifacts.bytes_written},
      {"cache.artifacts.disk_failures", artifacts.failures},
      {"cache.memory.bytes", layers_->memory_bound.bytes()},
      {"cache.memory.keys", layers_->memory_bound.blobs()},
      {"cache.units.bytes", layers_->unit_bound.bytes()},
      {"cache.units.objects", layers_->unit_bound.blobs()},
      {"cache.units.evicted", layers_->unit_bound.evicted()},
      {"cache.units.disk_reads", units.gets},
      {"cache.units.hits", units.found},
      {"cache.units.disk_writes", units.puts},
      {"cache.units.disk_failures", units.failures},
      {"cache.tuning.decisions", layers_->tuning.size()},
      {"cache.broken", layers_->Sum(&VerifiedBlobStore::broken)},
      {"cache.other_versions", layers_->Sum(&VerifiedBlobStore::other_versions)},
      {"cache.put_aside", put_aside_},
      {"cache.quarantine.records", layers_->quarantine.blobs()},
      {"cache.quarantine.bytes", layers_->quarantine.bytes()},
  };
  std::sort(counters.begin(), counters.end());
  return counters;
}

}  // namespace kiln
