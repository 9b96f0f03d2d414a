// The rest of the poison set: sources that a worker lies into its plan, for the
// machine's real compiler to build, and a graph too large to plan.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/graph_builder.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/counters.h"
#include "tests/support/left_behind.h"
#include "tests/support/test_daemon.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

void UseLyingPlanner(Config& config) {
  config.worker_program =
      absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/tests/support/lying_planner");
  config.worker_count = 1;
}

// x + x + ... + x, so many times. `lie`: what the worker is to plan.
wire::CompileRequest Sum(int additions, const std::string& lie = "") {
  GraphBuilder g("sum");
  const TensorSpec rows = {DType::kFloat32, {g.Symbol("N", {.hint = 8}), 4}};
  const Value x = g.Input("x", rows);
  Value sum = x;
  for (int i = 0; i < additions; ++i)
    sum = g.Node("aten.add.Tensor", {sum, x}, rows);
  g.Output(sum);
  wire::CompileRequest request;
  *request.mutable_graph() = g.Build().value();
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  request.mutable_options()->mutable_artifact()->set_cache_tag(lie);
  return request;
}

TEST(PoisonSources, OneThatIncludesAFileOfTheMachineFailsItsJob) {
  TestDaemon d(UseLyingPlanner);
  const std::string key = absl::StrCat(d.config().data_folder, "/signing.key");
  for (const std::string& path : {std::string("/etc/passwd"), key}) {
    ASSERT_TRUE(std::ifstream(path).good()) << path;
    const absl::Status refused =
        d.client().Compile(Sum(1, absl::StrCat("lie.include.", path))).status;
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kToolchainRejected) << refused;
    // It was not opened, so no line of it is told.
    EXPECT_TRUE(absl::StrContains(refused.message(), "No such file") ||
                absl::StrContains(refused.message(), "Permission denied"))
        << refused;
  }
  ExpectWellAndEmpty(d, Sum(1));
  EXPECT_EQ(d.count(Count::kWorkersDied), 0);
  ExpectNothingLeft(d);
}

TEST(PoisonSources, AHundredMegabytesFailTheirJobAndReachNoCompiler) {
  TestDaemon d(UseLyingPlanner);
  const absl::Status refused =
      d.client().Compile(Sum(1, "lie.source.100")).status;
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kTooLarge) << refused;
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 0);
  ExpectWellAndEmpty(d, Sum(1));
  ExpectNothingLeft(d);
}

// They would stand before all others' plans.
TEST(PoisonSources, AHundredThousandUnitsFailTheirJobAndReachNoCompiler) {
  TestDaemon d(UseLyingPlanner);
  const absl::Status refused =
      d.client().Compile(Sum(1, "lie.units.100000")).status;
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kTooLarge) << refused;
  EXPECT_TRUE(absl::StrContains(
      refused.message(),
      "graph sum: its plan has 100001 units, at most 4096 are built"))
      << refused;
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 0);
  ExpectWellAndEmpty(d, Sum(1));
}

// "VmHWM" of this process, which is the daemon too.
int64_t MostMebibytes() {
  std::ifstream in("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (in >> word) {
    if (word == "VmHWM:" && in >> kilobytes) break;
  }
  return kilobytes >> 10;
}

TEST(PoisonSources, AReplyOfMillionsOfEmptyUnitsIsNotDecoded) {
  TestDaemon d(UseLyingPlanner);
  ASSERT_TRUE(d.client().Compile(Sum(1)).status.ok());
  const int64_t before = MostMebibytes();
  const absl::Status refused = d.client().Compile(Sum(1, "lie.bomb.12")).status;
  EXPECT_TRUE(ReasonOf(refused) == ErrorReason::kWorkerDied ||
              ReasonOf(refused) == ErrorReason::kJobPoisoned)
      << refused;
  // The frame's bytes, and not a hundred times as much.
  EXPECT_LT(MostMebibytes() - before, 300);
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 1);
  ASSERT_TRUE(d.client().Compile(Sum(2)).status.ok());
}

TEST(PoisonSources, AGraphBombFailsItsJobAndHitsAreServedMeanwhile) {
  if (kTestWorkerMemoryBytes == 0) GTEST_SKIP() << "a sanitizer takes it all";
  TestDaemon d([](Config& config) {
    UseLyingPlanner(config);
    // A plan of so many nodes takes 900 MB, one of a single node 60.
    config.worker_memory_bytes = int64_t{400} << 20;
  });
  const wire::CompileRequest known = Sum(1);
  ASSERT_TRUE(d.client().Compile(known).status.ok());
  const wire::LookupRequest lookup = LookupFor(known);
  const wire::CompileRequest bomb = Sum(100'000);
  CompileAnswer bombed;
  std::atomic<bool> answered = false;
  std::thread caller([&] {
    bombed = TestClient(d.config().socket).Compile(bomb);
    answered = true;
  });
  int hits = 0;
  while (!answered) {
    const auto found = d.client().Lookup(lookup);
    const bool hit =
        found.ok() && found->outcome() == wire::LookupReply::OUTCOME_HIT;
    EXPECT_TRUE(hit) << found.status();
    if (!hit) break;
    hits += d.count(Count::kJobsStarted) == 2 ? 1 : 0;
  }
  caller.join();
  EXPECT_GT(hits, 0);
  EXPECT_EQ(ReasonOf(bombed.status), ErrorReason::kWorkerDied) << bombed.status;
  EXPECT_EQ(ReasonOf(d.client().Compile(bomb).status),
            ErrorReason::kJobPoisoned);
  EXPECT_TRUE(d.client().Compile(Sum(2)).status.ok());
  ExpectNothingLeft(d);
}

}  // namespace
}  // namespace kiln
