#ifndef KILN_CACHE_UNIT_CACHE_H_
#define KILN_CACHE_UNIT_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cache/blob_store.h"
#include "cache/far/far_tier.h"
#include "cache/ledger.h"
#include "cache/verified_blob_store.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"

namespace kiln {

// Object code of translation units, stored once and shared by all graphs.
//
// Thread-safe.
class UnitCache {
 public:
  // A tier behind the store, and where its records go near.
  struct Far {
    FarTier& tier;
    VerifiedBlobStore& records;
  };

  // `store` gives back sound bytes or an error. All outlive the cache.
  UnitCache(BlobStore& store, Ledger& ledger,
            std::optional<Far> far = std::nullopt)
      : store_(store), ledger_(ledger), far_(far) {}

  // What an object depends on: the unit (language, source, flags), the target
  // and the toolchain with its version ("nvrtc 13.0"). Single flight over jobs
  // goes by this too.
  static Digest Key(const Digest& unit, const wire::Target& target,
                    absl::string_view toolchain);

  // Empty on a miss; what cannot be read or understood is a miss. Asks what is
  // near alone.
  std::optional<wire::ObjectCode> Lookup(const Digest& key) const;

  // Brings near what the far tier has of these and the store has not. Waits for
  // the far tier's budget at most, for all of them.
  void Fetch(const std::vector<Digest>& keys);

  // The far tier gets it too, some time later. UNAVAILABLE STORAGE as
  // BlobStore::Put. The log is not stored. `build` is what it took.
  absl::Status Insert(const Digest& key, const wire::ObjectCode& object,
                      absl::Duration build);

  // Takes a unit away. Errors as BlobStore::Delete.
  absl::Status Evict(const Digest& key);

  // Notes a unit in the ledger that is in the store and not there.
  absl::Status Note(const Digest& key, int64_t record_bytes);

  // Bytes of all objects as they are stored. STORAGE as BlobStore::Scan.
  absl::StatusOr<int64_t> Bytes() const;

  // Removes all objects that are there when it is called, and gives their
  // bytes. STORAGE as BlobStore::Delete; some may be gone then.
  absl::StatusOr<int64_t> Clear();

 private:
  absl::Status Add(const Digest& key, int64_t bytes, absl::Duration build);

  BlobStore& store_;
  Ledger& ledger_;
  const std::optional<Far> far_;
};

}  // namespace kiln

#endif  // KILN_CACHE_UNIT_CACHE_H_
