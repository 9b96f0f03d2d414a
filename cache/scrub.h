#ifndef KILN_CACHE_SCRUB_H_
#define KILN_CACHE_SCRUB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "cache/artifact_cache.h"
#include "cache/verified_blob_store.h"

namespace kiln {

// What a walk over all that is stored has found.
struct ScrubReport {
  int64_t records = 0;  // that were read
  int64_t bytes = 0;    // of them
  int64_t damaged =
      0;  // not sound: they are dropped, but for a copy in quarantine
  // Sound entries that no index named, and names in indexes without their entry.
  int64_t unnamed = 0, dangling = 0;
  int64_t other_versions = 0;  // of other builds, left alone
  int64_t unreadable = 0;  // since the disk failed: nothing is done about them
};

// Reads and verifies every record of a cache, while it serves.
//
// Thread-safe.
class Scrub {
 public:
  struct Rooms {
    ArtifactCache& artifacts;
    VerifiedBlobStore& entries;
    VerifiedBlobStore& indexes;
    std::vector<VerifiedBlobStore*> others;
  };

  explicit Scrub(Rooms rooms) : rooms_(std::move(rooms)) {}

  // With `mend`, what is damaged goes as a lookup would have it go, an entry that no
  // index names is named again, and a name without its entry is taken out. Without,
  // nothing is changed. `tell` gets the report now and then.
  //
  // CANCELLED when `stop` is set meanwhile; UNAVAILABLE STORAGE.
  absl::Status Run(bool mend, const std::atomic<bool>& stop,
                   const std::function<void(const ScrubReport&)>& tell) const;

 private:
  class Walk;

  const Rooms rooms_;
};

}  // namespace kiln

#endif  // KILN_CACHE_SCRUB_H_
