#include "tests/compiler/schedule/plan_text_check.h"

#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {

void ExpectReadsBack(const std::string& text) {
  const auto plan = ParseKernelPlan(text);
  ASSERT_TRUE(plan.ok()) << plan.status() << "\n" << text;
  EXPECT_EQ(ToText(*plan), text);
  EXPECT_EQ(VerifyKernelPlan(*plan), absl::OkStatus());
}

void ExpectBreaks(absl::string_view rule, const std::string& text) {
  const auto plan = ParseKernelPlan(text);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(std::string(VerifyKernelPlan(*plan).message()),
              testing::StartsWith(std::string(rule) + " at "))
      << text;
}

}  // namespace kiln
