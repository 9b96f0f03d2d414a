#ifndef KILN_RUNTIME_READ_PLAN_H_
#define KILN_RUNTIME_READ_PLAN_H_

#include "absl/status/statusor.h"
#include "runtime/plan.h"

namespace kiln {

namespace wire {
class Artifact;
}  // namespace wire

// Takes the LaunchPlan out of an artifact, once it keeps the rules R1 to R7 of
// proto/plan/plan_verifier.h: nothing after it meets a number out of range.
//
// ARTIFACT_CORRUPT  of the verifier: the number of the broken rule, the step
// UNSUPPORTED_OP    a host call or a region: named
//
// The plan's constants are views on `artifact`, which must outlive it.
absl::StatusOr<Plan> ReadPlan(const wire::Artifact& artifact);

}  // namespace kiln

#endif  // KILN_RUNTIME_READ_PLAN_H_
