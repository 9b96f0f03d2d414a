#ifndef KILN_CACHE_LEDGER_H_
#define KILN_CACHE_LEDGER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cache/eviction_policy.h"
#include "cache/namespace_totals.h"
#include "cache/row_table.h"
#include "cache/storage_budgets.h"
#include "proto/base/clock.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"

namespace kiln {

enum class StoredKind : uint8_t { kEntry, kUnit };

// What is noted of a record when it is stored.
struct StoredFacts {
  StoredKind kind = StoredKind::kEntry;
  int64_t bytes = 0;            // of the record
  absl::Duration rebuild;       // what it took to make
  std::string cache_namespace;  // empty for units, which are everybody's
  Digest build;                 // of an entry: the compiler's sources
  Digest compile_key;           // of an entry
};

struct LedgerTotals {
  int64_t entries = 0, entry_bytes = 0;
  int64_t units = 0, unit_bytes = 0;

  int64_t bytes() const { return entry_bytes + unit_bytes; }
};

// What is stored, how large and how dear it is, and when it was used last: all that
// budgets and eviction ask of entries and units, in some 110 bytes of memory each.
// Written to tables of the database, and read back in the background: a ledger
// serves at once, and knows all when it has been loaded.
//
// Uses are noted in memory and written now and then; a crash makes some records
// look older, no more. Ages are measured by the steady clock, so that somebody who
// sets the wall's clock evicts nothing.
//
// Thread-safe. Touch takes one lock of sixty-four and does no I/O.
class Ledger {
 public:
  // A row beside each record, and its parts of indexes: counted with its bytes.
  static constexpr int64_t kBytesBeside = 512;
  static constexpr int kShards = 64;

  // All outlive the ledger. `budgets` bound what is pinned (namespace_totals.h).
  Ledger(RowTable& facts, RowTable& uses, const Clock& clock,
         StorageBudgets budgets = {});

  // Notes a record that is about to be stored, as used now. A use of before and a
  // pin stay; not the pin of one that grew beyond what may be pinned. Errors as
  // RowTable::Put.
  absl::Status Add(const Digest& key, const StoredFacts& facts);
  // It was used. Nothing for a key that is not known.
  void Touch(const Digest& key);
  // Its record is gone.
  void Forget(const Digest& key);
  // A pinned record is not evicted. NOT_FOUND for a key that is not known or a unit's;
  // OUT_OF_RANGE TOO_LARGE when too much would be pinned; errors as RowTable::Put.
  absl::Status SetPinned(const Digest& key, bool pinned);

  bool Knows(const Digest& key) const;
  bool IsPinned(const Digest& key) const;
  // InfinitePast for a key that is not known.
  absl::Time LastUsed(const Digest& key) const;
  // What was noted. NOT_FOUND; errors as RowTable::Get.
  absl::StatusOr<StoredFacts> FactsOf(const Digest& key) const;

  // The time that uses are noted in: the wall's at the start, and steady from then.
  absl::Time Now() const;

  LedgerTotals totals() const;
  // Of those that have entries.
  std::map<std::string, int64_t> BytesOfNamespaces() const {
    return namespaces_.Bytes();
  }
  int64_t pinned() const { return namespaces_.pinned(); }
  // Some entries of the namespace, `most` or all of them, in no order.
  std::vector<Digest> EntriesOf(absl::string_view cache_namespace,
                                int64_t most) const;

  // Entries of this build, which is that of this daemon's own workers, are not stale.
  // While none was named, none is.
  void NameLiveBuild(const Digest& build);

  // Which records a sample is of.
  struct Filter {
    bool entries_alone = false;
    const std::string* cache_namespace = nullptr;  // null: of all
    absl::Duration unused = absl::ZeroDuration();  // at least
  };
  // Those of a shard that may go, by the filter; pinned ones never may.
  std::vector<Evictable> ShardSample(int shard, const Filter& filter) const;

  // The three steps of loading (ledger_loading.h), in this order, once. `stop`
  // ends the first early, with CANCELLED.
  absl::Status LoadRows(const std::atomic<bool>& stop);
  // The record is there. False for one that has no row.
  bool MarkSeen(const Digest& key);
  // Forgets what LoadRows brought and nobody has marked.
  void ForgetUnseen();
  // All that is stored was loaded or added. False after a failed load.
  bool is_whole() const { return is_whole_; }
  void SetWhole() { is_whole_ = true; }

  // Writes the uses that were noted since it was last called. Errors as
  // RowTable::Put; a use that could not be written is lost.
  absl::Status WriteUses();

 private:
  // Small, since there may be millions.
  struct Row {
    Digest key;
    uint32_t bytes_64 = 0;  // in units of 64 bytes
    uint32_t used_unix_s = 0;
    uint32_t rebuild_ms = 0;
    uint32_t build = 0;      // the first bytes of its digest
    uint32_t name : 24 = 0;  // of namespaces_; of a unit 0
    bool is_unit : 1 = false;
    bool pinned : 1 = false;
    bool seen : 1 = false;
    bool used_since_write : 1 = false;
    bool loaded : 1 = false;

    int64_t bytes() const { return int64_t{bytes_64} * 64; }
  };
  struct RowHash {
    using is_transparent = void;
    size_t operator()(const Row& row) const { return (*this)(row.key); }
    size_t operator()(const Digest& key) const;
  };
  struct RowEqual {
    using is_transparent = void;
    bool operator()(const Row& a, const Row& b) const { return a.key == b.key; }
    bool operator()(const Row& a, const Digest& b) const { return a.key == b; }
  };
  struct Shard {
    mutable Mutex mu;
    absl::flat_hash_set<Row, RowHash, RowEqual> rows ABSL_GUARDED_BY(mu);
  };
  Shard& ShardOf(const Digest& key) const;
  // Without the number of its namespace.
  static Row RowOf(const Digest& key, const StoredFacts& facts,
                   absl::Time used);
  // It is counted, with its pin, and has the number; or neither any more.
  void Enter(Row& row, const std::string& cache_namespace);
  void Leave(const Row& row);
  // Uses that are not written yet, a batch of them at most.
  RowTable::Rows TakeUses(Shard& shard);
  uint32_t NowSeconds() const;

  RowTable& facts_;
  RowTable& uses_;
  const Clock& clock_;
  const absl::Time begun_;
  const SteadyTime begun_steady_;
  NamespaceTotals namespaces_;
  mutable std::array<Shard, kShards> shards_;
  mutable Mutex mu_;
  LedgerTotals totals_ ABSL_GUARDED_BY(mu_);
  std::set<uint32_t> live_builds_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> is_whole_{false};
};

}  // namespace kiln

#endif  // KILN_CACHE_LEDGER_H_
