#include "runtime/extern_kernels/prepared_calls.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

class Nothing final : public PreparedCall {
 public:
  absl::Status Run(const ExternBuffers&, Stream) const override {
    return absl::OkStatus();
  }
  absl::string_view library() const override { return "nothing"; }
};

MatmulProblem Rows(int64_t rows) {
  MatmulProblem problem;
  problem.m = rows;
  return problem;
}

TEST(PreparedCalls, ACallServesItsProblemAndNoOther) {
  PreparedCalls calls;
  const auto three = std::make_shared<const Nothing>();
  EXPECT_EQ(calls.Find(Rows(3)), nullptr);
  calls.Add(Rows(3), three);
  EXPECT_EQ(calls.Find(Rows(3)), three);
  EXPECT_EQ(calls.Find(Rows(4)), nullptr);
  MatmulProblem rounded = Rows(3);
  rounded.precision.tf32 = true;
  EXPECT_EQ(calls.Find(rounded), nullptr);
  EXPECT_EQ(calls.Find(ConvolutionProblem{}), nullptr);
}

TEST(PreparedCalls, ACallGoesWithItsLastUser) {
  PreparedCalls calls;
  auto user = std::make_shared<const Nothing>();
  const std::weak_ptr<const Nothing> seen = user;
  calls.Add(Rows(3), user);
  user.reset();
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(calls.Find(Rows(3)), nullptr);
  const auto next = std::make_shared<const Nothing>();
  calls.Add(Rows(3), next);
  EXPECT_EQ(calls.Find(Rows(3)), next);
}

TEST(PreparedCalls, ManyThatAreGoneLeaveThoseInUse) {
  PreparedCalls calls;
  std::vector<std::shared_ptr<const Nothing>> users;
  for (int rows = 0; rows < 1000; ++rows) {
    auto user = std::make_shared<const Nothing>();
    calls.Add(Rows(rows), user);
    if (rows % 10 == 0) users.push_back(user);
  }
  for (int rows = 0; rows < 1000; ++rows) {
    const auto due = rows % 10 == 0 ? users[rows / 10] : nullptr;
    EXPECT_EQ(calls.Find(Rows(rows)), due) << rows;
  }
}

}  // namespace
}  // namespace kiln
