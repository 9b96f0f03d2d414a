#ifndef KILN_PROTO_BASE_WORK_LIMITS_H_
#define KILN_PROTO_BASE_WORK_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/repeated_field.h"
#include "proto/artifact.pb.h"
#include "proto/guard.pb.h"

namespace kiln {

// What a worker may take and plan, a daemon's and a client's own alike.

// Of one request.
inline constexpr absl::Duration kRequestWall = absl::Seconds(120);
// What one request has, at least, over all threads; at most twice as much.
inline constexpr absl::Duration kRequestCpu = absl::Seconds(600);

// Of all units of a plan. Models have half a megabyte; more than this is a worker
// gone wrong, and would keep a compiler busy for its whole time and memory.
inline constexpr int64_t kMostSourceBytes = int64_t{64} << 20;
// Of a plan. A unit is some kernels and takes seconds; models have dozens.
inline constexpr int kMostUnits = 4096;

// Conditions of a plan or an entry: its guards, and its choices of tuning. Lookups of
// the key read and try them all. Models have some dozens.
inline constexpr int kMostConditions = 4096;
inline constexpr size_t kMostConditionBytes = size_t{256} << 10;

// Pure.
bool AreConditionsFew(
    const wire::GuardSet& guards,
    const google::protobuf::RepeatedPtrField<std::string>& tuned);

// Whether a plan may be built. `graph`, for people, is its name.
//
// OUT_OF_RANGE TOO_LARGE, with what was found and what is due. Pure.
absl::Status CheckPlanSize(const wire::CompilePlan& plan,
                           absl::string_view graph);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_WORK_LIMITS_H_
