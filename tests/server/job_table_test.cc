#include "server/job_table.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "proto/compile_service.pb.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/job_queue.h"

namespace kiln {
namespace {

struct Table {
  explicit Table(int64_t limit = 100)
      : queue({.jobs_a_namespace = limit}),
        table(queue, clock, counters, quarantine) {}

  absl::Status Join(absl::string_view key, std::shared_ptr<Waiter> waiter) {
    return table.Join(Sha256Of(key), nullptr, key, std::move(waiter)).status();
  }

  FakeClock clock;
  Counters counters;
  JobQueue queue;
  Quarantine quarantine{clock, absl::Minutes(5)};
  JobTable table;
};

// Keeps what it is told.
class Listener final : public Waiter {
 public:
  absl::Status StillWaits() const override {
    return gone ? absl::CancelledError("gone") : absl::OkStatus();
  }
  void OnProgress(const SharedBytes& event) override {
    wire::CompileEvent heard;
    EXPECT_TRUE(heard.ParseFromString(*event));
    MutexLock lock(&mu_);
    events_.push_back(event);
    progress_.push_back(heard.progress());
  }
  void OnOutcome(JobRole role, const JobOutcome& outcome) override {
    MutexLock lock(&mu_);
    EXPECT_FALSE(outcome_.has_value());
    outcome_ = outcome.status;
    artifact_ = outcome.artifact;
    role_ = role;
  }

  std::optional<absl::Status> outcome() const {
    MutexLock lock(&mu_);
    return outcome_;
  }
  std::shared_ptr<const CompiledArtifact> artifact() const {
    MutexLock lock(&mu_);
    return artifact_;
  }
  JobRole role() const {
    MutexLock lock(&mu_);
    return role_;
  }
  std::vector<wire::Progress> progress() const {
    MutexLock lock(&mu_);
    return progress_;
  }
  SharedBytes last_event() const {
    MutexLock lock(&mu_);
    return events_.back();
  }

  bool gone = false;

 private:
  mutable Mutex mu_;
  std::vector<SharedBytes> events_ ABSL_GUARDED_BY(mu_);
  std::vector<wire::Progress> progress_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const CompiledArtifact> artifact_ ABSL_GUARDED_BY(mu_);
  JobRole role_ ABSL_GUARDED_BY(mu_) = JobRole::kLeader;
};

std::shared_ptr<Listener> PatientWaiter() {
  return std::make_shared<Listener>();
}

absl::Status OutcomeOf(const Listener& waiter) {
  return waiter.outcome().value_or(absl::UnknownError("none yet"));
}

TEST(JobTable, CallersOfOneKeyShareOneJob) {
  Table t;
  const auto first = PatientWaiter();
  const auto second = PatientWaiter();
  EXPECT_TRUE(t.Join("a", first).ok());
  EXPECT_TRUE(t.Join("a", second).ok());
  EXPECT_EQ(t.queue.size(), 1);

  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.table.Finish(*job, {});
  EXPECT_TRUE(OutcomeOf(*first).ok());
  EXPECT_TRUE(OutcomeOf(*second).ok());
  EXPECT_EQ(first->role(), JobRole::kLeader);
  EXPECT_EQ(second->role(), JobRole::kJoined);
  EXPECT_TRUE(t.table.Snapshot().empty());
}

TEST(JobTable, ACallerThatWaitsNoMoreBeginsNoJob) {
  Table t;
  const auto gone = PatientWaiter();
  gone->gone = true;
  EXPECT_TRUE(absl::IsCancelled(t.Join("a", gone)));
  EXPECT_EQ(t.queue.size(), 0);
  EXPECT_TRUE(t.table.Snapshot().empty());
}

TEST(JobTable, AQueuedJobEndsWithItsLastWaiter) {
  Table t;
  const auto first = PatientWaiter();
  const auto second = PatientWaiter();
  ASSERT_TRUE(t.Join("a", first).ok());
  ASSERT_TRUE(t.Join("a", second).ok());
  t.table.Leave(Sha256Of("a"), *first);
  EXPECT_EQ(t.queue.size(), 1);
  t.table.Leave(Sha256Of("a"), *second);
  EXPECT_EQ(t.queue.size(), 0);
  EXPECT_EQ(t.counters.Get(Count::kJobsCancelled), 1);
}

TEST(JobTable, AJobThatLeftTheQueueAsItsLastWaiterLeftDoesNotBegin) {
  Table t;
  const auto waiter = PatientWaiter();
  ASSERT_TRUE(t.Join("a", waiter).ok());
  const std::shared_ptr<Job> job = t.queue.Pop();
  t.table.Leave(Sha256Of("a"), *waiter);
  EXPECT_FALSE(t.table.Begin(*job));
}

TEST(JobTable, ARunningJobOutlivesItsWaiters) {
  Table t;
  const auto waiter = PatientWaiter();
  ASSERT_TRUE(t.Join("a", waiter).ok());
  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.table.Leave(Sha256Of("a"), *waiter);
  const auto late = PatientWaiter();
  EXPECT_TRUE(t.Join("a", late).ok());
  t.table.Finish(*job, {});
  EXPECT_TRUE(OutcomeOf(*late).ok());
  EXPECT_EQ(late->role(), JobRole::kJoined);
  EXPECT_EQ(waiter->outcome(), std::nullopt);
}

TEST(JobTable, AFullQueueRefusesByName) {
  Table t(/*limit=*/1);
  ASSERT_TRUE(t.Join("a", PatientWaiter()).ok());
  const auto refused = t.Join("b", PatientWaiter());
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kQueueFull);
  // Joining needs no room.
  EXPECT_TRUE(t.Join("a", PatientWaiter()).ok());
}

TEST(JobTable, AJobThatEndedTwoWorkersIsRefusedForAWhile) {
  Table t;
  const auto waiter = PatientWaiter();
  ASSERT_TRUE(t.Join("a", waiter).ok());
  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.table.Finish(*job, {MakeError(ErrorReason::kWorkerDied, "two of them")});
  EXPECT_EQ(ReasonOf(OutcomeOf(*waiter)), ErrorReason::kWorkerDied);

  EXPECT_EQ(ReasonOf(t.Join("a", PatientWaiter())), ErrorReason::kJobPoisoned);
  t.clock.Advance(absl::Minutes(5));
  EXPECT_TRUE(t.Join("a", PatientWaiter()).ok());
}

TEST(JobTable, ADrainingTableTakesNoJobAndLetsJobsEnd) {
  Table t;
  const auto waiter = PatientWaiter();
  ASSERT_TRUE(t.Join("a", waiter).ok());
  t.table.Drain();
  EXPECT_EQ(ReasonOf(t.Join("b", PatientWaiter())), ErrorReason::kDraining);
  EXPECT_FALSE(t.table.WaitUntilEmpty(absl::ZeroDuration()));
  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.table.Finish(*job, {});
  EXPECT_TRUE(t.table.WaitUntilEmpty(absl::ZeroDuration()));
  EXPECT_TRUE(OutcomeOf(*waiter).ok());
}

TEST(JobTable, APoisonedJobIsRefusedForItsTimeWhateverTheWallsClockSays) {
  for (const absl::Duration jump : {absl::Hours(24), -absl::Hours(24)}) {
    Table t;
    ASSERT_TRUE(t.Join("a", PatientWaiter()).ok());
    const std::shared_ptr<Job> job = t.queue.Pop();
    ASSERT_TRUE(t.table.Begin(*job));
    t.table.Finish(*job, {MakeError(ErrorReason::kWorkerDied, "two of them")});
    t.clock.Jump(jump);
    EXPECT_EQ(ReasonOf(t.Join("a", PatientWaiter())),
              ErrorReason::kJobPoisoned);
    t.clock.Advance(absl::Minutes(5));
    EXPECT_TRUE(t.Join("a", PatientWaiter()).ok());
  }
}

TEST(JobTable, WaitersHearOfTheirPlaceAndThenOfTheirKernels) {
  Table t;
  const auto first = PatientWaiter();
  const auto second = PatientWaiter();
  ASSERT_TRUE(t.Join("a", first).ok());
  ASSERT_TRUE(t.Join("b", second).ok());
  EXPECT_EQ(second->progress().at(0).queue_position(), 2u);
  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.clock.Advance(absl::Seconds(1));
  t.table.Report(*job, JobStage::kBuilding, 1, 3);
  t.table.Report(*job, JobStage::kBuilding, 2, 3);
  ASSERT_EQ(first->progress().size(), 3u);
  EXPECT_EQ(first->progress().at(2).done(), 2u);
  EXPECT_EQ(first->progress().at(2).queue_position(), 0u);
  EXPECT_EQ(first->progress().at(2).age_ms(), 1000);
  // Nothing new, and it is not long ago.
  t.table.TellWaiters();
  EXPECT_EQ(first->progress().size(), 3u);
  EXPECT_EQ(second->progress().size(), 1u);
  t.clock.Advance(kHeartbeat);
  t.table.TellWaiters();
  EXPECT_EQ(first->progress().size(), 4u);
  EXPECT_EQ(second->progress().at(1).queue_position(), 1u);
}

TEST(JobTable, TenThousandWaitersCopyNoArtifactAndAreToldSeldom) {
  Table t;
  std::vector<std::shared_ptr<Listener>> all;
  for (int i = 0; i < 10000; ++i) {
    all.push_back(PatientWaiter());
    ASSERT_TRUE(t.Join("a", all.back()).ok());
  }
  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  for (int kernel = 1; kernel <= 50; ++kernel) {
    t.clock.Advance(absl::Milliseconds(100));
    t.table.Report(*job, JobStage::kBuilding, kernel, 50);
    t.table.TellWaiters();
  }
  // Five seconds: at least one heartbeat, and two seconds between.
  EXPECT_EQ(all.front()->progress().size(), 3u);
  EXPECT_EQ(all.front()->last_event(), all.back()->last_event());
  const auto made = std::make_shared<const CompiledArtifact>();
  t.table.Finish(*job, {.artifact = made});
  for (const auto& one : all) {
    EXPECT_TRUE(OutcomeOf(*one).ok());
    EXPECT_EQ(one->artifact(), made);  // and not another like it
  }
}

// For TSan: callers come and go while runners work.
TEST(JobTable, ManyCallersAndRunnersAtOnceEachGetOneOutcome) {
  Table t;
  constexpr int kCallers = 8;
  constexpr int kRounds = 50;
  std::atomic<int> outcomes = 0;
  std::vector<std::thread> runners;
  for (int i = 0; i < 3; ++i) {
    runners.emplace_back([&t] {
      while (const std::shared_ptr<Job> job = t.queue.Pop()) {
        if (!t.table.Begin(*job)) continue;
        t.table.Report(*job, JobStage::kPlanning, 0, 0);
        t.table.Finish(*job, {});
      }
    });
  }
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&t, &outcomes, c] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string key = absl::StrCat("k", round % 5);
        const auto waiter = PatientWaiter();
        ASSERT_TRUE(t.Join(key, waiter).ok());
        if (c == 0) {
          t.table.Leave(Sha256Of(key), *waiter);
          continue;
        }
        while (!waiter->outcome().has_value()) std::this_thread::yield();
        EXPECT_TRUE(OutcomeOf(*waiter).ok());
        ++outcomes;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  t.queue.Close();
  for (std::thread& runner : runners) runner.join();
  EXPECT_EQ(outcomes, (kCallers - 1) * kRounds);
}

}  // namespace
}  // namespace kiln
