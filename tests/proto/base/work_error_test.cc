#include "proto/base/work_error.h"

#include "gtest/gtest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

TEST(WorkError, AStatusComesBackAsItWent) {
  for (const absl::Status& status :
       {MakeError(ErrorReason::kUnsupportedOp, "node 3: aten.foo"),
        absl::InternalError("unit of f: another"),
        absl::UnauthenticatedError("the last code there is")}) {
    const absl::Status back = StatusOf(WorkErrorOf(status));
    EXPECT_EQ(back, status);
    EXPECT_EQ(ReasonOf(back), ReasonOf(status));
  }
}

TEST(WorkError, AnErrorIsNeverOk) {
  for (const uint32_t code : {0u, 17u, 4'000'000'000u}) {
    wire::WorkError error;
    error.set_code(code);
    error.set_message("words");
    const absl::Status status = StatusOf(error);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << code;
    EXPECT_NE(status.message().find("words"), absl::string_view::npos);
  }
}

TEST(WorkError, AReasonThatNobodyKnowsLeavesItsCode) {
  wire::WorkError error;
  error.set_reason("FROM_A_LATER_VERSION");
  error.set_code(static_cast<uint32_t>(absl::StatusCode::kAborted));
  EXPECT_EQ(StatusOf(error).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace kiln
