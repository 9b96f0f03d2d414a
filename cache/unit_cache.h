#ifndef KILN_CACHE_UNIT_CACHE_H_
#define KILN_CACHE_UNIT_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/blob_store.h"
#include "cache/usage_log.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"

namespace kiln {

// Object code of translation units, stored once and shared by all graphs.
//
// Thread-safe.
class UnitCache {
 public:
  // `store` gives back sound bytes or an error. Both outlive the cache.
  UnitCache(BlobStore& store, UsageLog& usage) : store_(store), usage_(usage) {}

  // What an object depends on: the unit (language, source, flags), the target
  // and the toolchain with its version ("nvrtc 13.0"). Single flight over jobs
  // goes by this too.
  static Digest Key(const Digest& unit, const wire::Target& target,
                    absl::string_view toolchain);

  // Empty on a miss; what cannot be read or understood is a miss.
  std::optional<wire::ObjectCode> Lookup(const Digest& key) const;

  // UNAVAILABLE STORAGE as BlobStore::Put. The log is not stored.
  absl::Status Insert(const Digest& key, const wire::ObjectCode& object);

  // Bytes of all objects as they are stored. STORAGE as BlobStore::Scan.
  absl::StatusOr<int64_t> Bytes() const;

  // Removes all objects that are there when it is called, and gives their
  // bytes. STORAGE as BlobStore::Delete; some may be gone then.
  absl::StatusOr<int64_t> Clear();

 private:
  BlobStore& store_;
  UsageLog& usage_;
};

}  // namespace kiln

#endif  // KILN_CACHE_UNIT_CACHE_H_
