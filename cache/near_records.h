#ifndef KILN_CACHE_NEAR_RECORDS_H_
#define KILN_CACHE_NEAR_RECORDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/artifact_cache.h"
#include "cache/far/far_store.h"
#include "cache/ledger.h"
#include "cache/unit_cache.h"
#include "cache/verified_blob_store.h"
#include "proto/base/digest.h"
#include "proto/base/key_ring.h"

namespace kiln {

// The near store as other daemons see it: records as they are, under the names of a
// far store. Reads the disk, and never asks the far tier. Thread-safe.
//
// Errors of all, where they touch the disk: UNAVAILABLE STORAGE.
class NearRecords {
 public:
  // All outlive this. `entries` and `units` hold the records of the two caches.
  struct Stores {
    ArtifactCache& artifacts;
    UnitCache& unit_cache;
    VerifiedBlobStore& entries;
    VerifiedBlobStore& units;
    Ledger& ledger;
    const KeyRing& keys;
  };
  explicit NearRecords(const Stores& stores) : stores_(stores) {}

  struct KeyHints {
    std::string cache_namespace;
    std::vector<FarHint> hints;
  };
  // NOT_FOUND when the key has no entries.
  absl::StatusOr<KeyHints> Hints(const Digest& key) const;

  struct Record {
    std::string cache_namespace;  // of an entry; empty: a unit
    std::string bytes;
  };
  // A sound record; reading it is a use. NOT_FOUND, also for one that was not sound
  // and is gone now.
  //
  // What the daemon's own key sealed and another key signs for the namespace is
  // sealed by that key, as a far record is. What others signed stays as it is.
  absl::StatusOr<Record> Get(const FarName& name) const;

  // What another daemon sent and this one would serve.
  struct Offer {
    FarName name;
    std::string bytes;
    wire::CacheEntry entry;  // not of a unit

    // Empty: a unit.
    const std::string& cache_namespace() const {
      return entry.key().cache_namespace();
    }
  };
  // Errors of a record that this daemon would not serve: as OpenFarEntry.
  absl::StatusOr<Offer> Open(const FarName& name, std::string record) const;
  // Stores it, unless there is a sound record of that name: that one stays.
  absl::Status Keep(const Offer& offer);

  // OK also when it is not there.
  absl::Status Erase(const FarName& name);

 private:
  const Stores stores_;
};

}  // namespace kiln

#endif  // KILN_CACHE_NEAR_RECORDS_H_
