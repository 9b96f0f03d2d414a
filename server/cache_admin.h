#ifndef KILN_SERVER_CACHE_ADMIN_H_
#define KILN_SERVER_CACHE_ADMIN_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/artifact_cache.h"
#include "cache/compile_key.h"
#include "cache/tuning_cache.h"
#include "cache/unit_cache.h"
#include "proto/admin_service.pb.h"

namespace kiln {

// What people ask of the cache, as proto/admin_service.proto says. Each scans
// the database where it must: not for a request's path. Whether the caller may
// see the namespace is checked before, so that a caller who may not learns
// nothing of what is there.

// What walks over the cache asks `is_gone` as it goes, and ends with CANCELLED when
// nobody waits for it any more. It answers a page: at most kPageEntries entries, of at
// most kPageKeys keys that it looked at. BAD_OPTION for a page's beginning that is no key.
inline constexpr int64_t kPageEntries = 1000;
inline constexpr int64_t kPageKeys = 2000;
using IsGone = std::function<bool()>;

// BAD_OPTION unless these are the first digits of a key.
absl::Status CheckKeyPrefix(absl::string_view prefix);

absl::StatusOr<wire::ListReply> ListEntries(const ArtifactCache& cache,
                                            const wire::ListRequest& request,
                                            const IsGone& is_gone);

// NOT_FOUND, or INVALID_ARGUMENT when the prefix fits several keys. DATA_LOSS
// ARTIFACT_CORRUPT when the entry is no artifact.
absl::StatusOr<wire::ShowReply> ShowEntry(const ArtifactCache& cache,
                                          const wire::ShowRequest& request);

// By key prefix: as ShowEntry. By request: the errors of MakeTask. The nearest
// entry is one of `among`, or of all namespaces when that is empty; of so many keys
// as ArtifactCache::Nearest looks at, and the answer says when there are more.
absl::StatusOr<wire::ExplainReply> ExplainKey(
    const ArtifactCache& cache, const TuningCache& tuning,
    const BuildIdentity& build, const wire::ExplainRequest& request,
    absl::string_view among, const IsGone& is_gone);

// `all`, and nothing narrower, takes the units' object code too; their bytes
// are counted with those of the entries.
//
// INVALID_ARGUMENT BAD_OPTION when nothing says what to forget.
absl::StatusOr<wire::PurgeReply> PurgeEntries(ArtifactCache& cache,
                                              UnitCache& units,
                                              const wire::PurgeRequest& request,
                                              const IsGone& is_gone);

// BAD_OPTION without a key, NOT_FOUND when no key begins so; STORAGE.
absl::StatusOr<wire::PinReply> PinEntries(ArtifactCache& cache,
                                          const wire::PinRequest& request,
                                          const IsGone& is_gone);

}  // namespace kiln

#endif  // KILN_SERVER_CACHE_ADMIN_H_
