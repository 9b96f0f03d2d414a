// A launch plan, as text and as a message: what a runtime is handed.

#include <cstdlib>

#include "proto/artifact.pb.h"
#include "proto/plan/plan_text.h"
#include "proto/plan/plan_verifier.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/seed_plan.h"

namespace kiln {

std::vector<std::string> FuzzSeeds() {
  return {kSeedPlan, ParsePlan(kSeedPlan)->SerializeAsString()};
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  wire::CompilePlan compiled;
  if (const auto plan = ParsePlan(FuzzText(data, size)); plan.ok()) {
    *compiled.mutable_plan() = *plan;
    // A sound plan is printed so that it is read back.
    if (VerifyLaunchPlan(compiled, 1).ok() &&
        PlanText(*ParsePlan(PlanText(*plan))) != PlanText(*plan)) {
      abort();
    }
  }
  if (!compiled.mutable_plan()->ParseFromArray(data, static_cast<int>(size)))
    return 0;
  static_cast<void>(VerifyLaunchPlan(compiled, 1));
  static_cast<void>(PlanText(compiled.plan()));
  return 0;
}
