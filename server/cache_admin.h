#ifndef KILN_SERVER_CACHE_ADMIN_H_
#define KILN_SERVER_CACHE_ADMIN_H_

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

absl::StatusOr<wire::ListReply> ListEntries(const ArtifactCache& cache,
                                            const wire::ListRequest& request);

// NOT_FOUND, or INVALID_ARGUMENT when the prefix fits several keys. DATA_LOSS
// ARTIFACT_CORRUPT when the entry is no artifact.
absl::StatusOr<wire::ShowReply> ShowEntry(const ArtifactCache& cache,
                                          const wire::ShowRequest& request);

// By key prefix: as ShowEntry. By request: the errors of MakeTask. The nearest
// entry is one of `among`, or of all namespaces when that is empty.
absl::StatusOr<wire::ExplainReply> ExplainKey(
    const ArtifactCache& cache, const TuningCache& tuning,
    const BuildIdentity& build, const wire::ExplainRequest& request,
    absl::string_view among);

// `all`, and nothing narrower, takes the units' object code too; their bytes
// are counted with those of the entries.
//
// INVALID_ARGUMENT BAD_OPTION when nothing says what to forget.
absl::StatusOr<wire::PurgeReply> PurgeEntries(
    ArtifactCache& cache, UnitCache& units, const wire::PurgeRequest& request);

// BAD_OPTION without a key, NOT_FOUND when no key begins so; STORAGE.
absl::StatusOr<wire::PinReply> PinEntries(ArtifactCache& cache,
                                          const wire::PinRequest& request);

}  // namespace kiln

#endif  // KILN_SERVER_CACHE_ADMIN_H_
