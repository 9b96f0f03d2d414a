#include "server/unit_builder.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/memory_blob_store.h"
#include "cache/unit_cache.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/assemble.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

// A store that does something else between a read and its answer.
class InterruptedStore final : public BlobStore {
 public:
  mutable std::function<void()> after_next_get;

  absl::StatusOr<Blob> Get(const Digest& key) const override {
    absl::StatusOr<Blob> found = inner_.Get(key);
    const auto interrupt = std::exchange(after_next_get, nullptr);
    if (interrupt) interrupt();
    return found;
  }
  absl::Status Put(const Digest& key, absl::string_view bytes) override {
    return inner_.Put(key, bytes);
  }
  absl::Status Delete(const Digest& key) override { return inner_.Delete(key); }
  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override {
    return inner_.ScanFrom(from, visit);
  }

 private:
  MemoryBlobStore inner_;
};

class UnitBuilderTest : public testing::Test {
 protected:
  void SetUp() override {
    WorkerLimits limits;
    limits.program =
        absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/tests/support/fake_worker");
    limits.memory_bytes = kTestWorkerMemoryBytes;
    auto started = WorkerPool::Start(
        limits, 1, absl::StrCat(testing::TempDir(), "/scratch"), counters_);
    ASSERT_TRUE(started.ok()) << started.status();
    pool_ = *std::move(started);
    builder_ = std::make_unique<UnitBuilder>(*pool_, cache_, counters_);
  }

  // `meanwhile` is called once the unit has been asked for.
  absl::StatusOr<BuiltUnits> Build(const std::string& source,
                                   std::function<void()> meanwhile = nullptr,
                                   WorkLabel label = {}) {
    wire::CompilePlan plan;
    wire::TranslationUnit& unit = *plan.add_units();
    unit.set_source(source);
    unit.set_digest(UnitDigest(unit).ToBytes());
    label.toolchain = pool_->build()->cpu_toolchain;
    return builder_->BuildAll(plan, {}, label, [&meanwhile](int, int) {
      const auto call = std::exchange(meanwhile, nullptr);
      if (call) call();
    });
  }

  const RealClock clock_;
  Counters counters_;
  InterruptedStore store_;
  MemoryRows facts_, uses_;
  Ledger ledger_{facts_, uses_, clock_};
  UnitCache cache_{store_, ledger_};
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<UnitBuilder> builder_;
};

TEST_F(UnitBuilderTest, ABuildThatEndsBetweenTheTwoLooksIsNotDoneAgain) {
  // Asked, the cache has nothing; before that is known, another job has built
  // the unit, stored it and taken it off the list.
  store_.after_next_get = [this] {
    const auto other = Build("// a unit");
    EXPECT_TRUE(other.ok()) << other.status();
  };
  const auto built = Build("// a unit");
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->built, 0);
  EXPECT_EQ(built->cached, 1);
  EXPECT_EQ(counters_.Get(Count::kUnitsBuilt), 1);
}

TEST_F(UnitBuilderTest,
       AUnitIsStoredBeforeACallerThatJoinedItsBuildIsAnswered) {
  int64_t stored = 0;
  const auto first = Build("// a unit", [this, &stored] {
    const auto joined = Build("// a unit");
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_EQ(joined->cached, 1);
    EXPECT_EQ(joined->builds.size(), 1);
    stored = cache_.Bytes().value();
  });
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->builds.size(), 1);
  const WorkTimes& times = first->builds[0].times;
  EXPECT_LE(times.asked, times.begun);
  EXPECT_LE(times.begun, times.ended);
  EXPECT_THAT(Build("// a unit")->builds, testing::IsEmpty());  // found
  EXPECT_EQ(counters_.Get(Count::kUnitsJoined), 1);
  EXPECT_EQ(counters_.Get(Count::kUnitsBuilt), 1);
  EXPECT_GT(stored, 0);
}

// The label of a graph's job.
WorkLabel LabelFor(const std::string& cache_namespace,
                   const std::string& graph) {
  return WorkLabel{.key = Sha256Of(graph),
                   .graph_name = graph,
                   .target = {},
                   .toolchain = "",
                   .cache_namespace = cache_namespace};
}

TEST_F(UnitBuilderTest, WhereAnotherJobsBuildEndedItsWorkersAJobHasItsOwn) {
  for (const std::string joins : {"team-a", "team-b"}) {
    const std::string source =
        absl::StrCat("die_once ", joins, "1\ndie_once ", joins, "2\n");
    absl::StatusOr<BuiltUnits> joined;
    const absl::Status owners =
        Build(
            source,
            [&] { joined = Build(source, nullptr, LabelFor(joins, "good")); },
            LabelFor("team-a", "bad"))
            .status();
    EXPECT_EQ(ReasonOf(owners), ErrorReason::kWorkerDied) << owners;
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_EQ(joined->built, 1);
  }
  EXPECT_EQ(counters_.Get(Count::kUnitsJoined), 2);
}

TEST_F(UnitBuilderTest, AJobIsToldOfItsOwnBuildAlone) {
  for (const std::string source : {"die any\n", "error TOOLCHAIN_REJECTED\n"}) {
    absl::Status others;
    const absl::Status owners =
        Build(
            source,
            [&] {
              others = Build(source, nullptr, LabelFor("team-b", "b")).status();
            },
            LabelFor("team-a", "unreleased"))
            .status();
    EXPECT_FALSE(owners.ok());
    EXPECT_EQ(ReasonOf(others), ReasonOf(owners)) << others;
    EXPECT_FALSE(absl::StrContains(others.message(), "unreleased")) << others;
  }
  EXPECT_EQ(counters_.Get(Count::kUnitsJoined), 2);
  EXPECT_EQ(counters_.Get(Count::kWorkersDied), 4);  // two each
}

TEST_F(UnitBuilderTest, AUnitThatFailedIsAskedForAgain) {
  const auto failed = Build("error TOOLCHAIN_REJECTED\n");
  EXPECT_EQ(ReasonOf(failed.status()), ErrorReason::kToolchainRejected);
  const auto again = Build("error TOOLCHAIN_REJECTED\n");
  EXPECT_EQ(ReasonOf(again.status()), ErrorReason::kToolchainRejected);
  EXPECT_EQ(counters_.Get(Count::kUnitsJoined), 0);
  EXPECT_TRUE(Build("// a unit").ok());
}

}  // namespace
}  // namespace kiln
