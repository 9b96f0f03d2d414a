#ifndef KILN_RUNTIME_PLAN_CHECKS_H_
#define KILN_RUNTIME_PLAN_CHECKS_H_

#include "absl/status/status.h"
#include "runtime/plan.h"

namespace kiln {

// Checks rules L1 to L7 of read_plan.h, as far as they are about a whole plan:
// read_plan itself has seen to the ones that are needed to read it. Linear in
// the plan. ARTIFACT_CORRUPT with the rule's number.
absl::Status CheckPlan(const Plan& plan);

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_CHECKS_H_
