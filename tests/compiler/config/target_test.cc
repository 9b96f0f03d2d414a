#include "compiler/config/target.h"

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "proto/key/request_digest.h"
#include "tests/proto/key/sample_graph.h"

namespace kiln {
namespace {

// All that NVRTC 13.0 builds for, with its suffixes, and levels of processors
// up to one that nobody has made.
constexpr absl::string_view kNames[] = {
    "sm_75",     "sm_80",     "sm_86",     "sm_87",     "sm_88",   "sm_89",
    "sm_90",     "sm_90a",    "sm_100",    "sm_100a",   "sm_100f", "sm_103",
    "sm_103a",   "sm_103f",   "sm_110",    "sm_110a",   "sm_110f", "sm_120",
    "sm_120a",   "sm_120f",   "sm_121",    "sm_121a",   "sm_121f", "x86-64",
    "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v5", "pentium", ""};

TEST(Target, ARequestMayNameWhatTheCompilerKnowsAndNothingElse) {
  int known = 0;
  for (const absl::string_view name : kNames) {
    wire::CompileRequest request = SampleRequest();
    if (absl::StartsWith(name, "sm_")) {
      request.mutable_target()->mutable_cuda()->set_arch(std::string(name));
    } else {
      request.mutable_target()->mutable_cpu()->set_level(std::string(name));
    }
    const absl::Status asked = CanonicalizeRequest(request).status();
    const absl::Status compiled = TargetFromName(name).status();
    EXPECT_EQ(asked.ok(), compiled.ok()) << name << ": " << asked;
    if (compiled.ok()) ++known;
    if (!compiled.ok()) {
      EXPECT_EQ(ReasonOf(asked), ErrorReason::kBadTarget) << name;
      EXPECT_EQ(ReasonOf(compiled), ErrorReason::kBadTarget) << name;
    }
  }
  EXPECT_EQ(known, 11);
}

}  // namespace
}  // namespace kiln
