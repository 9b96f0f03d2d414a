#ifndef KILN_CACHE_FAR_FAR_TIER_H_
#define KILN_CACHE_FAR_FAR_TIER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cache/blob_store.h"
#include "cache/far/far_counts.h"
#include "cache/far/far_store.h"
#include "cache/far/far_writer.h"
#include "proto/base/key_ring.h"
#include "proto/base/steady_time.h"
#include "proto/cache_entry.pb.h"

namespace kiln {

// A shared store behind the near one: what is not there is asked for here, within
// a budget, and what is made is written here, later. It may lose anything, be
// slow, be gone or lie: then there is a miss, and a counter says why.
// Thread-safe.
class FarTier {
 public:
  struct Options {
    absl::Duration budget;  // of one ask
    int64_t queue_bytes;    // of writes that wait
    int64_t max_record_bytes;
    // What a namespace may have in the store, and for how long a record stays there
    // (far_budget.h).
    std::map<std::string, int64_t> namespace_budgets = {};
    absl::Duration ttl = absl::Hours(24 * 14);
    // Told of each record that is not believed, on the thread that asked. May be
    // empty.
    std::function<void(const Digest& key, const absl::Status& why)> on_refused;
  };

  // `keys` seal what is written, and say whose records are believed. The store is
  // connected to meanwhile, on the writer's thread; where that fails it is logged,
  // and counted as an ask.
  FarTier(const Options& options, std::shared_ptr<FarStore> store,
          std::shared_ptr<const KeyRing> keys);

  // A sound record and what is in it.
  struct Entry {
    wire::CacheEntry entry;
    std::string record;
  };

  // An entry of the key that `serves`, the youngest first, in that namespace; empty:
  // in any. Ends by the deadline.
  std::optional<Entry> FindEntry(
      const Digest& key, absl::string_view cache_namespace,
      absl::FunctionRef<bool(const wire::EntryFacts&)> serves,
      SteadyTime deadline);
  // A sound record of the unit.
  std::optional<std::string> FindUnit(const Digest& key, SteadyTime deadline);

  // When an ask that begins now must end.
  SteadyTime Deadline() const { return After(SteadyNow(), options_.budget); }

  // Written some time later, or not. Nobody waits.
  void PutEntry(const Digest& key, absl::string_view cache_namespace,
                const wire::EntryFacts& facts, Blob payload);
  void PutUnit(const Digest& key, Blob payload);

  // Null where the store has none.
  FarLeases* leases() const { return store_->leases(); }
  // As FarWriter::QueueCall.
  void AfterWrites(FarWriter::Call call) { writer_.QueueCall(std::move(call)); }

  // "far.hits", ..., sorted by name.
  std::vector<std::pair<std::string, int64_t>> Counters() const;

 private:
  void Connect(SteadyTime deadline);
  // Counts an ask that gave nothing.
  void CountFailure(const Digest& key, const absl::Status& why);
  void Refuse(const Digest& key, const absl::Status& why);

  const Options options_;
  const std::shared_ptr<const KeyRing> keys_;
  FarCounts counts_;
  const std::shared_ptr<FarStore> store_;
  FarWriter writer_;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_TIER_H_
