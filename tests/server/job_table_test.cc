#include "server/job_table.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "server/counters.h"
#include "server/job_queue.h"

namespace kiln {
namespace {

struct Table {
  explicit Table(int64_t limit = 100)
      : queue(limit), table(queue, clock, counters, absl::Minutes(5)) {}

  absl::StatusOr<JobRole> Join(absl::string_view key,
                               std::shared_ptr<Waiter> waiter) {
    return table.Join(Sha256Of(key), nullptr, key, std::move(waiter));
  }

  FakeClock clock;
  Counters counters;
  JobQueue queue;
  JobTable table;
};

std::shared_ptr<Waiter> PatientWaiter() {
  return std::make_shared<Waiter>(absl::InfiniteFuture());
}

// The outcome, after whatever progress came before it.
absl::Status OutcomeOf(Waiter& waiter) {
  while (true) {
    const Waiter::News news = waiter.Next();
    if (!news.failure.ok()) return news.failure;
    if (news.outcome.has_value()) return news.outcome->status;
  }
}

TEST(JobTable, CallersOfOneKeyShareOneJob) {
  Table t;
  const auto first = PatientWaiter();
  const auto second = PatientWaiter();
  EXPECT_EQ(t.Join("a", first).value(), JobRole::kLeader);
  EXPECT_EQ(t.Join("a", second).value(), JobRole::kJoined);
  EXPECT_EQ(t.queue.size(), 1);

  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.table.Finish(*job, {});
  EXPECT_TRUE(OutcomeOf(*first).ok());
  EXPECT_TRUE(OutcomeOf(*second).ok());
  EXPECT_TRUE(t.table.Snapshot().empty());
}

TEST(JobTable, ACallerThatWaitsNoMoreBeginsNoJob) {
  Table t;
  const auto late = std::make_shared<Waiter>(absl::InfinitePast());
  EXPECT_TRUE(absl::IsDeadlineExceeded(t.Join("a", late).status()));
  const auto gone = PatientWaiter();
  gone->Cancel();
  EXPECT_TRUE(absl::IsCancelled(t.Join("a", gone).status()));
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
  EXPECT_EQ(t.Join("a", late).value(), JobRole::kJoined);
  t.table.Finish(*job, {});
  EXPECT_TRUE(OutcomeOf(*late).ok());
}

TEST(JobTable, AFullQueueRefusesByName) {
  Table t(/*limit=*/1);
  ASSERT_TRUE(t.Join("a", PatientWaiter()).ok());
  const auto refused = t.Join("b", PatientWaiter());
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kQueueFull);
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

  EXPECT_EQ(ReasonOf(t.Join("a", PatientWaiter()).status()),
            ErrorReason::kJobPoisoned);
  t.clock.Advance(absl::Minutes(5));
  EXPECT_TRUE(t.Join("a", PatientWaiter()).ok());
}

TEST(JobTable, ADrainingTableTakesNoJobAndLetsJobsEnd) {
  Table t;
  const auto waiter = PatientWaiter();
  ASSERT_TRUE(t.Join("a", waiter).ok());
  t.table.Drain();
  EXPECT_EQ(ReasonOf(t.Join("b", PatientWaiter()).status()),
            ErrorReason::kDraining);
  EXPECT_FALSE(t.table.WaitUntilEmpty(absl::ZeroDuration()));
  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.table.Finish(*job, {});
  EXPECT_TRUE(t.table.WaitUntilEmpty(absl::ZeroDuration()));
  EXPECT_TRUE(OutcomeOf(*waiter).ok());
}

TEST(JobTable, ProgressComesBeforeTheOutcomeAndTheLatestWins) {
  Table t;
  const auto waiter = PatientWaiter();
  ASSERT_TRUE(t.Join("a", waiter).ok());
  const std::shared_ptr<Job> job = t.queue.Pop();
  ASSERT_TRUE(t.table.Begin(*job));
  t.table.Report(*job, JobStage::kBuilding, 1, 3);
  t.table.Report(*job, JobStage::kBuilding, 2, 3);
  t.table.Finish(*job, {});
  const Waiter::News news = waiter->Next();
  ASSERT_TRUE(news.progress.has_value());
  EXPECT_EQ(news.progress->done, 2);
  EXPECT_TRUE(waiter->Next().outcome.has_value());
}

TEST(JobTable, AWaiterWhoseDeadlinePassedOrWhoWentIsToldSo) {
  Waiter late(absl::InfinitePast());
  EXPECT_EQ(late.Next().failure.code(), absl::StatusCode::kDeadlineExceeded);
  const auto gone = PatientWaiter();
  gone->Cancel();
  EXPECT_EQ(gone->Next().failure.code(), absl::StatusCode::kCancelled);
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
