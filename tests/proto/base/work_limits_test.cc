#include "proto/base/work_limits.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/base/status.h"

namespace kiln {
namespace {

TEST(WorkLimits, APlanHasABoundedNumberOfConditions) {
  wire::CompilePlan plan;
  wire::GuardSet& guards = *plan.mutable_guards();
  for (int i = 1; i < kMostConditions; ++i) guards.add_symbols();
  plan.add_tuned("row choice");
  EXPECT_EQ(CheckPlanSize(plan, "g"), absl::OkStatus());
  plan.add_tuned("another");
  EXPECT_EQ(ReasonOf(CheckPlanSize(plan, "g")), ErrorReason::kTooLarge);
  plan.Clear();
  plan.mutable_guards()->add_symbols()->set_origin(
      std::string(kMostConditionBytes, 'o'));
  EXPECT_EQ(ReasonOf(CheckPlanSize(plan, "g")), ErrorReason::kTooLarge);
}

TEST(WorkLimits, APlanHasABoundedNumberOfUnits) {
  wire::CompilePlan plan;
  for (int i = 0; i < kMostUnits; ++i) plan.add_units();
  EXPECT_EQ(CheckPlanSize(plan, "g"), absl::OkStatus());
  plan.add_units();
  EXPECT_EQ(ReasonOf(CheckPlanSize(plan, "g")), ErrorReason::kTooLarge);
}

}  // namespace
}  // namespace kiln
