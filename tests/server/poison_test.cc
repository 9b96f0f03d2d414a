// The poison set: what a request, or the worker it took over, may do to a daemon.
// Each fails its own job with a reason, leaves nothing behind, and the daemon
// serves on.

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/counters.h"
#include "tests/support/left_behind.h"
#include "tests/support/test_daemon.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

// One poison, and the reason that its caller is due.
struct Poison {
  std::string name;
  std::string order;
  ErrorReason reason = ErrorReason::kWorkerDied;
};

class PoisonTest : public testing::TestWithParam<Poison> {};

INSTANTIATE_TEST_SUITE_P(
    Set, PoisonTest,
    testing::Values(Poison{"AnEndlessLoop", "fake.spin.any"},
                    Poison{"AnEndlessWait", "fake.hang.any"},
                    Poison{"AllMemory", "fake.eat.any"},
                    Poison{"ASegmentationFault", "fake.crash.any"},
                    Poison{"AForkBomb", "fake.bomb.any"},
                    Poison{"AnAbort", "fake.die.any"},
                    Poison{"GarbageFrames", "fake.garbage.any"},
                    Poison{"AnAbortWhileBuilding", "fake.build_die.any"}),
    [](const auto& info) { return info.param.name; });

TEST_P(PoisonTest, FailsItsOwnJobAndLeavesNothing) {
  if (GetParam().name == "AllMemory" && kTestWorkerMemoryBytes == 0) {
    GTEST_SKIP() << "a sanitizer takes it all";
  }
  TestDaemon d([](Config& config) {
    config.worker_count = 2;
    config.worker_timeout = absl::Seconds(3);
    config.worker_cpu_limit = absl::Seconds(1);
    if (kTestWorkerMemoryBytes > 0) {
      config.worker_memory_bytes = int64_t{256} << 20;
    }
  });
  const CompileAnswer bad = d.client().Compile(FakeRequest({GetParam().order}));
  EXPECT_EQ(ReasonOf(bad.status), GetParam().reason) << bad.status;
  const CompileAnswer again =
      d.client().Compile(FakeRequest({GetParam().order}));
  EXPECT_EQ(ReasonOf(again.status), ErrorReason::kJobPoisoned) << again.status;
  ExpectWellAndEmpty(d, FakeRequest({"fake.salt.good"}));
  ExpectNothingLeft(d);
}

TEST(Poison, ACallerThatKeepsSendingItBeginsNoOtherJob) {
  TestDaemon d;
  for (int i = 0; i < Quarantine::kJobsACaller; ++i) {
    wire::CompileRequest request = FakeRequest({"fake.die.any"});
    request.mutable_options()->mutable_artifact()->set_cache_tag(
        absl::StrCat("tag ", i));
    EXPECT_EQ(ReasonOf(d.client().Compile(request).status),
              ErrorReason::kWorkerDied);
  }
  EXPECT_EQ(
      ReasonOf(d.client().Compile(FakeRequest({"fake.salt.another"})).status),
      ErrorReason::kJobPoisoned);
  // An operator's word, and it may again.
  grpc::ClientContext context;
  wire::QuarantineRequest request;
  request.set_clear_all(true);
  wire::QuarantineReply reply;
  ASSERT_TRUE(
      d.client().admin().ListQuarantine(&context, request, &reply).ok());
  EXPECT_EQ(reply.cleared(), uint32_t{Quarantine::kJobsACaller});
  EXPECT_TRUE(
      d.client().Compile(FakeRequest({"fake.salt.another"})).status.ok());
}

}  // namespace
}  // namespace kiln
