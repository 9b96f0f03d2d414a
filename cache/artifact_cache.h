#ifndef KILN_CACHE_ARTIFACT_CACHE_H_
#define KILN_CACHE_ARTIFACT_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "cache/blob_store.h"
#include "cache/compile_key.h"
#include "cache/entry_id.h"
#include "cache/far/far_tier.h"
#include "cache/graph_keys.h"
#include "cache/key_index.h"
#include "cache/ledger.h"
#include "cache/read_once.h"
#include "cache/ready_entry.h"
#include "cache/ready_index.h"
#include "cache/tuning_cache.h"
#include "cache/verified_blob_store.h"
#include "proto/artifact.pb.h"
#include "proto/base/key_ring.h"
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
  int tried = 0;  // entries whose conditions were tried for it

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
  // The entry's own. Empty: any.
  absl::string_view cache_namespace = "";
};

// What the leader of a job stores.
struct NewEntry {
  CompileKey key;
  wire::SignedArtifact artifact;
  wire::GuardSet guards;           // over canonical symbols
  std::vector<std::string> tuned;  // CompilePlan.tuned
  int kernels = 0;
  uint32_t least_driver_cuda_version = 0;  // as Artifact's
  absl::Duration build;                    // planning and building
  std::vector<wire::JobPhase> phases;      // of the job, for people
  std::string cache_namespace;
  std::string graph_name;
  std::string target;      // TargetText
  std::string graph_text;  // GraphLines of the canonical graph
};

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
  bool pinned = false;
};

struct ShownEntry {
  EntrySummary summary;
  wire::SignedArtifact artifact;
  std::vector<wire::JobPhase> phases;  // of the job that made it
  std::string graph_text;              // GraphLines; empty where it is lost
};

// A part of a walk over entries, in order of their keys: calls that answer one page
// each hold nobody up, and little memory.
struct PageQuery {
  std::string key_prefix_hex;
  std::string cache_namespace;  // empty: of all
  std::optional<Digest> after;  // `next` of the page before
  int64_t most = 1000;          // entries; those of the last key come on top
  int64_t most_keys = 0;        // looked at, whosever; 0: no bound
  // Asked now and then; the walk ends with CANCELLED when it says so. May be empty.
  std::function<bool()> is_gone;
};
struct EntryPage {
  std::vector<EntrySummary> entries;
  std::optional<Digest> next;  // none: these are the last
};

// Which entries to forget. Conditions are joined by "and"; with none of them set
// nothing is chosen, unless `all`.
struct PurgeQuery {
  std::string key_prefix_hex;
  std::optional<absl::Duration> unused_for;  // at least that long
  std::string device;                        // a word of the target: "cuda"
  std::string cache_namespace;               // empty: of all
  bool all = false;
  bool dry_run = false;  // choose and count, forget nothing
  // A page of the walk, as PageQuery; of `most_keys` keys, 0: of all.
  std::optional<Digest> after;
  int64_t most_keys = 0;
  std::function<bool()> is_gone;
};

struct PurgeOutcome {
  static constexpr size_t kMostTold = 100;
  std::vector<EntrySummary> victims;  // the first kMostTold
  int64_t entries = 0;
  int64_t bytes = 0;
  std::optional<Digest> next;  // none: the walk is over
};

// The answer to "why was this not in the cache?".
struct NearestEntry {
  EntrySummary entry;
  KeyDifference difference;      // of the asked key against the entry's
  std::string graph_difference;  // first differing line, when the graph differs
};
struct Nearness {
  std::optional<NearestEntry> nearest;  // none: nothing was there
  bool saw_all = true;  // false: there are more keys than were looked at
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
    const BlobStore* memory =
        nullptr;  // what of it is in memory; null: nothing
  };
  // Keys that Nearest and Show look at for one answer.
  static constexpr int64_t kMostLooked = 2000;
  // Entries of a namespace whose keys are looked up for each page of a walk: a row of
  // the ledger each. The keys of a larger one are found by a walk over all keys.
  static constexpr int64_t kFewEntries = 10000;
  // How many records are kept as they were read, beside their bytes: some KiB each.
  // Of indexes, which may be larger, at most as many as have so many bytes.
  static constexpr int64_t kReadyRecords = 4096;
  static constexpr int64_t kReadyIndexBytes = int64_t{16} << 20;

  // All outlive the cache.
  struct Stores {
    Table entries;      // by entry id
    Table indexes;      // by compile key
    BlobStore& graphs;  // by LinesRecord: canonical graphs as lines; GraphKeys
    Ledger& ledger;     // of entries
    const KeyRing& keys;
    // A tier behind all these; null: none. Where records of other daemons go; null:
    // none are stored.
    FarTier* far = nullptr;
    VerifiedBlobStore* records = nullptr;  // of entries
    // Told of what is in a store and its signer no longer counts, by its id. What the
    // store itself finds unsound it tells of. May be empty.
    VerifiedBlobStore::OnRefused on_refused;
  };

  explicit ArtifactCache(const Stores& stores)
      : stores_(stores),
        indexes_(stores.indexes.serve, stores.indexes.inspect),
        graph_keys_(stores.graphs),
        ready_indexes_(kReadyRecords, kReadyIndexBytes),
        ready_entries_(kReadyRecords) {}

  // The first entry of the key that serves the query, of those that are near.
  // `missed` is what LookupInMemory said of an equal query: no entry of that index is
  // tried again.
  CacheAnswer Lookup(const Digest& compile_key, const EntryQuery& query,
                     const ReadyIndex* missed = nullptr);

  // The same, of what lies in memory alone: reads no disk, waits for nobody, copies
  // nothing and tries no index that is large (ready_index.h). Empty tells nothing; but
  // where no entry of the key's index serves, `missed` is that index.
  std::optional<ReadyHit> LookupInMemory(
      const Digest& compile_key, const EntryQuery& query,
      std::shared_ptr<const ReadyIndex>* missed = nullptr);

  // What the far tier gave: a hit with what KeepNear takes, or a miss.
  struct FarAnswer {
    CacheAnswer answer;
    FarTier::Entry found;  // without its artifact
  };

  // For a query that nothing near serves: asks the far tier, which may wait until
  // the deadline.
  FarAnswer LookupFar(const Digest& compile_key, const EntryQuery& query,
                      SteadyTime deadline);

  // Stores what LookupFar found, for the next who ask. A call of its own, since
  // those who ask now need not wait for the disk.
  void KeepNear(const FarTier::Entry& found);

  // Puts the entry in front of the others of its key. One with equal guards
  // and tuning is replaced. The far tier gets it too, some time later, also when it
  // can't be stored near. UNAVAILABLE STORAGE as BlobStore::Put.
  absl::Status Insert(NewEntry entry);

  // What another daemon signed: `record` is sealed, and `entry` is what is in it.
  // Stored as it is, so that who vouched for it stays known. Errors as Insert.
  absl::Status StoreRecord(const wire::CacheEntry& entry,
                           absl::string_view record);

  // The entries of a key that are near, without their artifacts. NOT_FOUND;
  // ARTIFACT_CORRUPT as KeyIndexes::Read.
  absl::StatusOr<wire::KeyIndex> ReadIndex(const Digest& compile_key) const {
    return indexes_.Read(compile_key);
  }

  // Takes an entry away that the ledger knows, out of its key's index first. Errors
  // as BlobStore::Delete.
  absl::Status Evict(const Digest& entry_id);

  // Notes an entry in the ledger that is in the store and not there.
  absl::Status Note(const Digest& entry_id);

  // For a scrub: the key of a stored entry names it, or one does not name any more
  // what is not there. Errors as BlobStore::Put.
  absl::Status Name(const wire::CacheEntry& entry);
  absl::Status Unname(const Digest& compile_key, const Digest& entry_id);

  // The page's entries stay when the store is full, or no longer do. One of them may
  // still give way to sixteen younger ones of its key, and to a purge. Errors as
  // Ledger::SetPinned; what stood before the one that was refused stays pinned.
  absl::StatusOr<EntryPage> SetPinned(const PageQuery& query, bool pinned);

  // By key, then in order of service. Broken keys are left out.
  absl::StatusOr<EntryPage> List(const PageQuery& query) const;

  // The one entry (the first of its key) under the prefix; `cache_namespace` as
  // in List.
  //   NOT_FOUND, or INVALID_ARGUMENT when the prefix fits several keys, or more than
  //   kMostLooked of any namespace
  absl::StatusOr<ShownEntry> Show(absl::string_view key_prefix_hex,
                                  absl::string_view cache_namespace = "") const;

  absl::StatusOr<PurgeOutcome> Purge(const PurgeQuery& query);

  // The entry most like the asked key: of that key, or else of an equal graph, of the
  // asked key's own namespace first, or else most equal parts, then the smallest key.
  // Of one namespace, or of all when it is empty. Looks at those of the graph's keys
  // that are noted (graph_keys.h), and at some others; where none of the graph's has an
  // entry, at `most_looked` others.
  absl::StatusOr<Nearness> Nearest(
      const std::vector<KeyPart>& asked, absl::string_view graph_text,
      absl::string_view cache_namespace = "",
      const std::function<bool()>& is_gone = nullptr,
      int64_t most_looked = kMostLooked) const;

 private:
  // Visits those of the asked graph's keys that are noted.
  absl::Status LookAtGraph(
      const std::vector<KeyPart>& asked, absl::string_view cache_namespace,
      absl::FunctionRef<absl::Status(const Digest&, const wire::KeyIndex&)>
          visit) const;
  void NoteGraph(const wire::KeyFacts& key);
  // The keys of `most` of the namespace's entries, in order, without reading an index.
  // Whether they are all: not while the ledger is being loaded.
  std::pair<std::vector<Digest>, bool> KeysOf(absl::string_view cache_namespace,
                                              int64_t most) const;
  // As KeyIndexes::ForEach. Where a namespace is given that has no more than
  // kFewEntries, others' keys are not visited; else `visit` has to tell them apart.
  absl::Status Walk(
      absl::string_view key_prefix_hex, absl::string_view cache_namespace,
      const std::optional<Digest>& after,
      absl::FunctionRef<absl::Status(const Digest&, const wire::KeyIndex&)>
          visit) const;
  // Visits the namespace's keys, or all where it is empty, `most` at most. Whether
  // that were all of them.
  absl::StatusOr<bool> LookAt(
      absl::string_view cache_namespace, int64_t most,
      absl::FunctionRef<absl::Status(const Digest&, const wire::KeyIndex&)>
          visit) const;
  // `record` as lookups walk it. Errors as ReadIndexRecord.
  absl::StatusOr<std::shared_ptr<const ReadyIndex>> Ready(
      const Digest& compile_key, const Blob& record);
  absl::StatusOr<wire::CacheEntry> ReadEntry(const BlobStore& entries,
                                             const Digest& key,
                                             const Digest& entry_id) const;
  // The entry for a hit; what LookupInMemory needs of it is noted on the way, so that
  // its record is not read again for that.
  absl::StatusOr<wire::CacheEntry> ReadToServe(const Digest& key,
                                               const Digest& entry_id);
  EntrySummary Summary(const Digest& key, const wire::KeyFacts& facts,
                       const wire::EntryFacts& entry) const;
  void StoreGraph(const NewEntry& entry);
  // GraphLines of the entry's canonical graph; empty where they are lost, or its
  // namespace compiled it nowhere near.
  std::string GraphText(const EntrySummary& entry) const;
  absl::Status NoteEntry(const wire::CacheEntry& entry, int64_t record_bytes);

  const Stores stores_;
  KeyIndexes indexes_;
  GraphKeys graph_keys_;
  ReadOnce<ReadyIndex> ready_indexes_;
  ReadOnce<ReadyEntry> ready_entries_;
};

}  // namespace kiln

#endif  // KILN_CACHE_ARTIFACT_CACHE_H_
