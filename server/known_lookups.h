#ifndef KILN_SERVER_KNOWN_LOOKUPS_H_
#define KILN_SERVER_KNOWN_LOOKUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "cache/compile_key.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"

namespace kiln {

// What a request of Lookup says, and the key that it asks for by that. It does not
// say who asks, and what they may.
struct LookupAsk {
  Digest key;
  std::shared_ptr<const BuildIdentity> build;  // what the key was made with
  wire::Target target;
  std::vector<int64_t> values;
  uint32_t driver_cuda_version = 0;
  std::string cache_namespace;
};

// Requests that were read before, by their bytes: a thousand ranks send the very
// same ones, and reading one takes longer than finding its artifact in memory.
// Thread-safe.
class KnownLookups {
 public:
  // Longer requests are not kept, nor those that say more than can be kept in so many
  // bytes (fields that nobody knows take many times what they are sent as), nor more
  // than so many.
  static constexpr size_t kMostBytes = 512;
  static constexpr size_t kMostAskBytes = 1024;
  static constexpr size_t kMost = 8192;

  // What the request says; null where that is not known, or its key was made with
  // another build.
  std::shared_ptr<const LookupAsk> Find(
      absl::string_view request,
      const std::shared_ptr<const BuildIdentity>& build)
      ABSL_LOCKS_EXCLUDED(mu_);

  // `ask` is what was read of the request. One that nobody has asked for lately
  // gives way.
  void Keep(absl::string_view request, std::shared_ptr<const LookupAsk> ask)
      ABSL_LOCKS_EXCLUDED(mu_);

  size_t known() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Rows =
      absl::flat_hash_map<std::string, std::shared_ptr<const LookupAsk>>;

  mutable Mutex mu_;
  // When `late_` is half of all that are kept, those become the early ones, and what
  // was early goes.
  Rows late_ ABSL_GUARDED_BY(mu_);
  Rows early_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_KNOWN_LOOKUPS_H_
