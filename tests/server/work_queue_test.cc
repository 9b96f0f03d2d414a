#include "server/work_queue.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct Queue {
  std::shared_ptr<PendingWork> Push(bool build, const std::string& name,
                                    const std::string& cache_namespace,
                                    const std::string& caller) {
    wire::WorkRequest request;
    if (build) {
      request.mutable_build();
    } else {
      request.mutable_plan();
    }
    return queue.Push(std::move(request), {.graph_name = name,
                                           .cache_namespace = cache_namespace,
                                           .caller = caller});
  }
  std::shared_ptr<PendingWork> Build(const std::string& name,
                                     const std::string& cache_namespace = "a",
                                     const std::string& caller = "x") {
    return Push(/*build=*/true, name, cache_namespace, caller);
  }
  std::shared_ptr<PendingWork> Plan(const std::string& name,
                                    const std::string& cache_namespace = "a",
                                    const std::string& caller = "x") {
    return Push(/*build=*/false, name, cache_namespace, caller);
  }
  // The names of the next `count`, taken by new workers.
  std::string Taken(int count) {
    std::string names;
    for (int i = 0; i < count; ++i) {
      const auto work = queue.Take(std::nullopt);
      absl::StrAppend(&names, work->label().graph_name, " ");
    }
    return names;
  }

  WorkQueue queue;
};

TEST(WorkQueue, WhatACallerHasComesInOrderBuildsBeforePlans) {
  Queue q;
  for (const char* name : {"p1", "p2"}) q.Plan(name);
  for (const char* name : {"b1", "b2"}) q.Build(name);
  EXPECT_EQ(q.Taken(4), "b1 b2 p1 p2 ");
}

TEST(WorkQueue, CallersOfANamespaceTakeTurns) {
  Queue q;
  for (int i = 0; i < 1000; ++i) q.Build(absl::StrCat("x", i), "a", "x");
  for (const char* name : {"y0", "y1"}) q.Build(name, "a", "y");
  // No plan waits for all builds of another.
  q.Plan("z0", "a", "z");
  EXPECT_EQ(q.Taken(7), "x0 y0 z0 x1 y1 x2 x3 ");
}

TEST(WorkQueue, NamespacesTakeTurnsHoweverManyCallersOneHas) {
  Queue q;
  for (int caller = 0; caller < 100; ++caller) {
    for (int i = 0; i < 10; ++i)
      q.Build(absl::StrCat("a", caller, ".", i), "a", absl::StrCat(caller));
  }
  for (const char* name : {"b0", "b1"}) q.Build(name, "b");
  EXPECT_EQ(q.Taken(5), "a0.0 b0 a1.0 b1 a2.0 ");
}

TEST(WorkQueue, WhoJoinsABuildHasItInTheTurnOfItsOwn) {
  Queue q;
  for (int i = 0; i < 999; ++i) q.Build(absl::StrCat("x", i), "a", "x");
  const auto last = q.Build("last", "a", "x");
  q.queue.Join(last, "b", "y");
  q.Build("y0", "b", "y");
  EXPECT_EQ(q.Taken(4), "x0 last x1 y0 ");
  // Once.
  for (int i = 2; i < 999; ++i)
    EXPECT_EQ(q.Taken(1), absl::StrCat("x", i, " "));
  q.Build("next");
  EXPECT_EQ(q.Taken(1), "next ");
  q.queue.Join(last, "b", "y");
  q.Build("after", "b", "y");
  EXPECT_EQ(q.Taken(1), "after ");
}

TEST(WorkQueue, AWorkerKeepsItsNamespaceForAWhile) {
  Queue q;
  for (int i = 0; i < 20; ++i) {
    q.Build("a", "a");
    q.Build("b", "b");
  }
  const std::optional<WorkerUse> of_a = WorkerUse{.cache_namespace = "a"};
  for (int row = 0; row < WorkQueue::kMostInARow; ++row)
    EXPECT_EQ(q.queue.Take(of_a, row)->label().graph_name, "a") << row;
  EXPECT_EQ(q.queue.Take(of_a, WorkQueue::kMostInARow)->label().graph_name,
            "b");
}

TEST(WorkQueue, AnotherAttemptIsBeforeAllThatWait) {
  Queue q;
  for (const char* name : {"1", "2", "3"}) q.Build(name);
  auto first = q.queue.Take(std::nullopt);
  q.queue.PutBack(std::move(first));
  EXPECT_EQ(q.Taken(3), "1 2 3 ");
}

TEST(WorkQueue, ItsEndAnswersAllThatWaits) {
  Queue q;
  auto again = q.Build("again");
  q.queue.PutBack(q.queue.Take(std::nullopt));
  const auto build = q.Build("1"), plan = q.Plan("2", "b", "y");
  q.queue.Join(build, "b", "y");
  q.queue.End();
  const auto late = q.Build("late");
  for (const auto& work : {again, build, plan, late}) {
    EXPECT_EQ(ReasonOf(work->Wait().status()), ErrorReason::kDraining)
        << work->label().graph_name;
  }
  EXPECT_EQ(q.queue.Take(std::nullopt), nullptr);
}

}  // namespace
}  // namespace kiln
