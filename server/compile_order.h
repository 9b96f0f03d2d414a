#ifndef KILN_SERVER_COMPILE_ORDER_H_
#define KILN_SERVER_COMPILE_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/compile_key.h"
#include "cache/tuning_cache.h"
#include "proto/base/digest.h"
#include "proto/compile_service.pb.h"
#include "proto/worker.pb.h"

namespace kiln {

// What a caller asks for, exactly: the canonical request, what names its
// artifact, and the caller's own sizes. Immutable once made: a job keeps the
// order of the caller that began it.
struct CompileOrder {
  wire::CompileRequest request;  // canonical form
  CompileKey key;                // what decides the artifact's bytes
  Digest job_key;                // of orders that one job serves
  std::vector<int64_t> values;   // of the canonical symbols, in this call
  // In force for the target when the order was made; not null.
  std::shared_ptr<const TuningDecisions> tuning;
  std::string toolchain;   // ToolchainText of the key's build
  std::string graph_name;  // for people: short and printable
  int refusals = 0;  // artifacts whose guards did not hold for this caller
};

// What a job makes, with what it cost.
struct CompiledArtifact {
  std::shared_ptr<const wire::SignedArtifact> artifact;
  wire::GuardSet guards;
  bool from_cache = false;  // another job had stored it meanwhile
  absl::Duration queued;
  absl::Duration planned;
  absl::Duration built;
  int units_built = 0;
  int units_cached = 0;
};

// The order for a request. Errors: those of CanonicalizeRequest.
absl::StatusOr<std::shared_ptr<const CompileOrder>> MakeOrder(
    const wire::CompileRequest& request, const BuildIdentity& build,
    const TuningCache& tuning);

// The same, with the guards of `artifact` that this caller's sizes break
// forbidden: the next artifact may not rely on them.
//
// FAILED_PRECONDITION GUARD_FAILED after kMaxRefusals: each round forbids more,
// so only a compiler that relies on what is forbidden gets there.
inline constexpr int kMaxRefusals = 8;
absl::StatusOr<std::shared_ptr<const CompileOrder>> OrderWithout(
    const CompileOrder& order, const wire::GuardSet& guards,
    const BuildIdentity& build, const TuningCache& tuning);

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_ORDER_H_
