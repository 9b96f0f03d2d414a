#ifndef KILN_SERVER_HIT_BUFFERS_H_
#define KILN_SERVER_HIT_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "cache/artifact_cache.h"
#include "cache/ready_entry.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"

namespace kiln {

// Hits that are too large for the cache's memory, or came from afar: one buffer for all
// calls whose answers were not taken yet. Keeps none alive. Thread-safe.
class HitBuffers {
 public:
  // The artifact of a hit, serialized: a buffer that another call holds where that has
  // the very same bytes, else a new one. It has no more of a record than the artifact.
  ReadyHit Share(const CacheAnswer& hit) ABSL_LOCKS_EXCLUDED(mu_);

  // Entries that are known, of which some may have no buffer any more.
  size_t known() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  absl::flat_hash_map<Digest, std::weak_ptr<const std::string>> buffers_
      ABSL_GUARDED_BY(mu_);  // by entry
  size_t next_sweep_ ABSL_GUARDED_BY(mu_) = 64;
};

}  // namespace kiln

#endif  // KILN_SERVER_HIT_BUFFERS_H_
