#ifndef KILN_CACHE_ARTIFACT_CACHE_H_
#define KILN_CACHE_ARTIFACT_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "cache/blob_store.h"
#include "cache/compile_key.h"
#include "cache/key_index.h"
#include "cache/tuning_cache.h"
#include "cache/usage_log.h"
#include "proto/artifact.pb.h"
#include "proto/base/clock.h"
#include "proto/cache_entry.pb.h"
#include "proto/guard.pb.h"

namespace kiln {

// What a lookup found. kMiss, kGuardMiss and kBroken all mean: compile.
enum class CacheOutcome {
  kHit,
  kMiss,       // nothing under the key
  kGuardMiss,  // entries, but none that serves this caller: guards, tuning or
               // driver
  kBroken,     // something was there and was not sound; it is gone now
};

// "hit", "miss", "guard_miss", "broken".
absl::string_view OutcomeName(CacheOutcome outcome);

struct CacheAnswer {
  CacheOutcome outcome = CacheOutcome::kMiss;
  wire::SignedArtifact artifact;  // of a hit
  Digest entry_id;

  bool hit() const { return outcome == CacheOutcome::kHit; }
};

// What an entry must be to serve this caller.
struct EntryQuery {
  // Of the canonical symbols: the entry's guards hold for them.
  absl::Span<const int64_t> values;
  // In force now: the entry's tuning is theirs (tuning_match.h).
  const TuningDecisions& decisions;
  // The CUDA version that the caller's driver runs, as 13000: at least what the
  // entry needs. 0: not known, and every entry will do.
  uint32_t driver_cuda_version = 0;
};

// What the leader of a job stores.
struct NewEntry {
  CompileKey key;
  wire::SignedArtifact artifact;
  wire::GuardSet guards;           // over canonical symbols
  std::vector<std::string> tuned;  // CompilePlan.tuned
  int kernels = 0;
  uint32_t least_driver_cuda_version = 0;  // as Artifact's
  absl::Duration build;  // planning and building
  std::string cache_namespace;
  std::string graph_name;
  std::string target;      // TargetText
  std::string graph_text;  // GraphLines of the canonical graph
};

// Names an entry: a function of its key, its guards and its tuning.
Digest EntryId(const Digest& compile_key, const wire::GuardSet& guards,
               absl::Span<const std::string> tuned);

// One entry, without its bytes.
struct EntrySummary {
  Digest compile_key;
  Digest entry_id;
  std::vector<KeyPart> parts;
  std::vector<std::string> guards;
  std::vector<std::string> tuned;
  std::string cache_namespace;
  std::string graph_name;
  std::string target;
  int64_t bytes = 0;  // of its artifact
  int kernels = 0;
  absl::Time created;
  absl::Time last_used;
};

struct ShownEntry {
  EntrySummary summary;
  wire::SignedArtifact artifact;
};

// Which entries to forget. Conditions are joined by "and"; with none of them set
// nothing is chosen, unless `all`.
struct PurgeQuery {
  std::string key_prefix_hex;
  std::optional<absl::Duration> unused_for;  // at least that long
  std::string device;                        // a word of the target: "cuda"
  bool all = false;
  bool dry_run = false;  // choose and count, forget nothing
};

struct PurgeOutcome {
  std::vector<EntrySummary> victims;
  int64_t bytes = 0;
};

// The answer to "why was this not in the cache?".
struct NearestEntry {
  EntrySummary entry;
  KeyDifference difference;      // of the asked key against the entry's
  std::string graph_difference;  // first differing line, when the graph differs
};

// Remembers artifacts by compile key. One key may have several entries, which
// differ in their guards or their tuning; the one stored last is tried first.
// An entry is one record that never changes; which entries a key has stands in a
// small record of its own (key_index.h). Only lookups that hit and Show read an
// artifact.
//
// A cache may be slow, never wrong: whatever cannot be read or understood is a
// miss. Thread-safe.
class ArtifactCache {
 public:
  // A table, and the same blobs without the memory tier, which a walk over all
  // must not fill.
  struct Table {
    BlobStore& serve;
    BlobStore& inspect;
  };
  // All outlive the cache.
  struct Stores {
    Table entries;      // by entry id
    Table indexes;      // by compile key
    BlobStore& graphs;  // by digest of the canonical graph: its lines
    UsageLog& usage;    // of entries
    const Clock& clock;
  };

  explicit ArtifactCache(const Stores& stores)
      : stores_(stores),
        indexes_(stores.indexes.serve, stores.indexes.inspect) {}

  // The first entry of the key that serves the query.
  CacheAnswer Lookup(const Digest& compile_key, const EntryQuery& query);

  // Puts the entry in front of the others of its key. One with equal guards
  // and tuning is replaced. UNAVAILABLE STORAGE as BlobStore::Put.
  absl::Status Insert(NewEntry entry);

  // Takes an entry out of its key's index, before the store of entries evicts
  // it. One that cannot be read stays there until a lookup misses it.
  void BeforeEviction(const Digest& entry_id);

  // By key, then in order of service. `limit` 0: all. Broken keys are left out.
  absl::StatusOr<std::vector<EntrySummary>> List(
      absl::string_view key_prefix_hex, int limit) const;

  // The one entry (the first of its key) under the prefix.
  //   NOT_FOUND, or INVALID_ARGUMENT when the prefix fits several keys
  absl::StatusOr<ShownEntry> Show(absl::string_view key_prefix_hex) const;

  absl::StatusOr<PurgeOutcome> Purge(const PurgeQuery& query);

  // The entry most like the asked key: an equal graph first, then most equal
  // parts, then the smallest key. Empty when the cache is.
  absl::StatusOr<std::optional<NearestEntry>> Nearest(
      const std::vector<KeyPart>& asked, absl::string_view graph_text) const;

 private:
  absl::StatusOr<wire::CacheEntry> ReadEntry(const BlobStore& entries,
                                             const Digest& key,
                                             const Digest& entry_id) const;
  EntrySummary Summary(const Digest& key, const wire::KeyFacts& facts,
                       const wire::EntryFacts& entry) const;
  void StoreGraph(const NewEntry& entry);

  const Stores stores_;
  KeyIndexes indexes_;
};

}  // namespace kiln

#endif  // KILN_CACHE_ARTIFACT_CACHE_H_
