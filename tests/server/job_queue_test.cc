#include "server/job_queue.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/job_table.h"

namespace kiln {
namespace {

std::shared_ptr<Job> JobNamed(const std::string& id) {
  return std::make_shared<Job>(
      Job{.key = {}, .id = id, .graph_name = "", .task = nullptr, .begun = {}});
}

struct Queue {
  std::shared_ptr<Job> Push(const std::string& id, Urgency urgency,
                            const std::string& cache_namespace = "a",
                            const std::string& caller = "") {
    std::shared_ptr<Job> job = JobNamed(id);
    EXPECT_TRUE(queue.Push(job, {urgency, cache_namespace, 1, caller}).ok());
    return job;
  }
  // The ids of the next `count`.
  std::string Popped(int count) {
    std::string ids;
    for (int i = 0; i < count; ++i) absl::StrAppend(&ids, queue.Pop()->id, " ");
    return ids;
  }

  JobQueue queue{{}};
};

TEST(JobQueue, ANamespacesJobsComeInOrder) {
  Queue q;
  for (const char* id : {"1", "2", "3"}) q.Push(id, Urgency::kInteractive);
  EXPECT_EQ(q.Popped(3), "1 2 3 ");
}

TEST(JobQueue, NamespacesTakeTurns) {
  Queue q;
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 100; ++i)
    q.Push(absl::StrCat("a", i), Urgency::kInteractive, "a");
  const auto late = q.Push("b0", Urgency::kInteractive, "b");
  const auto later = q.Push("b1", Urgency::kInteractive, "b");
  q.Push("c0", Urgency::kInteractive, "c");
  EXPECT_EQ(q.queue.PositionOf(*late), 2);
  EXPECT_EQ(q.queue.PositionOf(*later), 5);
  EXPECT_EQ(q.Popped(6), "a0 b0 c0 a1 b1 a2 ");
  EXPECT_EQ(q.queue.PositionOf(*late), 0);
}

TEST(JobQueue, CallersOfANamespaceTakeTurns) {
  Queue q;
  for (int i = 0; i < 100; ++i)
    q.Push(absl::StrCat("x", i), Urgency::kInteractive, "a", "x");
  EXPECT_EQ(q.Popped(2), "x0 x1 ");
  const auto late = q.Push("y0", Urgency::kInteractive, "a", "y");
  q.Push("y1", Urgency::kInteractive, "a", "y");
  const auto raised = q.Push("z0", Urgency::kPrewarm, "a", "z");
  q.queue.Raise(*raised, Urgency::kInteractive);
  EXPECT_EQ(q.queue.PositionOf(*late), 2);
  EXPECT_EQ(q.Popped(6), "x2 y0 z0 x3 y1 x4 ");
}

TEST(JobQueue, WhatWasPutBackIsNextAgain) {
  Queue q;
  const auto first = q.Push("x0", Urgency::kInteractive, "a", "x");
  q.Push("x1", Urgency::kInteractive, "a", "x");
  q.Push("y0", Urgency::kInteractive, "a", "y");
  EXPECT_EQ(q.Popped(1), "x0 ");
  ASSERT_TRUE(
      q.queue.PutBack(first, {Urgency::kInteractive, "a", 1, "x"}).ok());
  EXPECT_EQ(q.Popped(3), "x0 y0 x1 ");
}

TEST(JobQueue, NobodyHasMoreRunnersThanAreLeftForOthers) {
  Queue q;
  q.queue.ShareRunners(4);
  std::vector<std::shared_ptr<Job>> of_x;
  for (int i = 0; i < 100; ++i)
    of_x.push_back(
        q.Push(absl::StrCat("x", i), Urgency::kInteractive, "a", "x"));
  EXPECT_EQ(q.Popped(2), "x0 x1 ");
  // Others' are popped before what is more urgent and its caller's third.
  q.Push("y0", Urgency::kPrewarm, "a", "y");
  q.Push("x-", Urgency::kPrewarm, "b", "x");
  EXPECT_EQ(q.Popped(1), "y0 ");
  // A namespace has three quarters.
  q.Push("z0", Urgency::kInteractive, "a", "z");
  q.Push("w0", Urgency::kPrewarm, "b", "w");
  EXPECT_EQ(q.Popped(1), "w0 ");
  q.queue.Done(*of_x[0]);
  EXPECT_EQ(q.Popped(1), "z0 ");
  q.queue.Done(*of_x[1]);
  EXPECT_EQ(q.Popped(1), "x2 ");
}

TEST(JobQueue, OneCallerFillsNoNamespaceAndOneNamespaceNotAllBytes) {
  JobQueue queue({.jobs_a_namespace = 8, .jobs = 100, .bytes = 1000});
  const auto push = [&](const char* cache_namespace, const char* caller,
                        int64_t bytes) {
    return queue.Push(JobNamed("j"),
                      {Urgency::kInteractive, cache_namespace, bytes, caller});
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(push("a", "x", 1).ok()) << i;
  const absl::Status full = push("a", "x", 1);
  EXPECT_EQ(ReasonOf(full), ErrorReason::kQueueFull);
  EXPECT_TRUE(absl::StrContains(full.message(), "4 jobs of caller x"));
  EXPECT_TRUE(push("a", "y", 1).ok());
  EXPECT_TRUE(push("b", "x", 1).ok());
  // Half of the bytes are a caller's, three quarters a namespace's.
  EXPECT_TRUE(push("c", "x", 500).ok());
  EXPECT_TRUE(absl::StrContains(push("c", "x", 1).message(), "with 500 bytes"));
  EXPECT_TRUE(push("c", "y", 246).ok());
  EXPECT_TRUE(
      absl::StrContains(push("c", "z", 1).message(), "746 bytes of namespace"));
  EXPECT_TRUE(push("d", "z", 1).ok());
}

TEST(JobQueue, UrgentOnesComeFirstAndNoneWaitsForEver) {
  Queue q;
  for (int i = 0; i < 60; ++i) {
    q.Push("p", Urgency::kPrewarm);
    q.Push("b", Urgency::kBackground);
    q.Push("i", Urgency::kInteractive);
  }
  std::string popped;
  for (int i = 0; i < 42; ++i) popped += q.queue.Pop()->id;
  EXPECT_EQ(std::count(popped.begin(), popped.end(), 'i'), 32);
  EXPECT_EQ(std::count(popped.begin(), popped.end(), 'b'), 8);
  EXPECT_EQ(std::count(popped.begin(), popped.end(), 'p'), 2);
}

TEST(JobQueue, OneThatComesAfterAFloodIsNext) {
  Queue q;
  for (int i = 0; i < 200; ++i) q.Push("p", Urgency::kPrewarm);
  EXPECT_EQ(q.Popped(2), "p p ");
  q.Push("i", Urgency::kInteractive);
  EXPECT_EQ(q.Popped(1), "i ");
}

TEST(JobQueue, AJobIsRaisedByWhoWantsItSooner) {
  Queue q;
  const auto job = q.Push("p0", Urgency::kPrewarm);
  q.Push("p1", Urgency::kPrewarm);
  q.Push("i0", Urgency::kInteractive);
  EXPECT_EQ(q.queue.PositionOf(*job), 2);
  q.queue.Raise(*job, Urgency::kInteractive);
  EXPECT_EQ(q.queue.size(), 3);
  EXPECT_EQ(q.Popped(2), "i0 p0 ");
  // Never the other way.
  const auto urgent = q.Push("i1", Urgency::kInteractive);
  q.queue.Raise(*urgent, Urgency::kPrewarm);
  EXPECT_EQ(q.Popped(2), "i1 p1 ");
}

TEST(JobQueue, AFullQueueNamesItsLimit) {
  JobQueue queue({.jobs_a_namespace = 2, .jobs = 3, .bytes = 100});
  const auto push = [&](const char* cache_namespace, int64_t bytes) {
    return queue.Push(JobNamed("j"),
                      {Urgency::kInteractive, cache_namespace, bytes});
  };
  ASSERT_TRUE(push("a", 40).ok());
  ASSERT_TRUE(push("a", 40).ok());
  const absl::Status own = push("a", 1);
  EXPECT_EQ(ReasonOf(own), ErrorReason::kQueueFull);
  EXPECT_TRUE(absl::StrContains(own.message(), "2 jobs of namespace a"));
  EXPECT_TRUE(absl::StrContains(push("b", 30).message(), "80 bytes"));
  ASSERT_TRUE(push("b", 20).ok());
  EXPECT_TRUE(absl::StrContains(push("c", 0).message(), "3 jobs that wait"));
  queue.Pop();
  EXPECT_TRUE(push("c", 40).ok());
}

TEST(JobQueue, AClosedQueueGivesOutWhatItHas) {
  Queue q;
  const auto job = q.Push("1", Urgency::kInteractive);
  q.Push("2", Urgency::kInteractive);
  EXPECT_TRUE(q.queue.Remove(*job));
  EXPECT_FALSE(q.queue.Remove(*job));
  q.queue.Close();
  EXPECT_EQ(ReasonOf(q.queue.Push(job, {})), ErrorReason::kDraining);
  EXPECT_EQ(q.Popped(1), "2 ");
  EXPECT_EQ(q.queue.Pop(), nullptr);
}

}  // namespace
}  // namespace kiln
