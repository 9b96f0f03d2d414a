#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/graph_tree/tree_rig.h"

// Calls of several threads of the program, one after the other.

namespace kiln::graph_tree {
namespace {

TEST(Threads, WhatAThreadHoldsNoOtherThreadWritesOver) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  FakeTensors mine, theirs;
  const auto call = [&](int64_t thread, int64_t value, FakeTensors& outputs) {
    rig.BeginCall();
    outputs.clear();
    ASSERT_TRUE(rig.TryCall(f, {rig.Full(value)}, outputs, thread).ok());
    EXPECT_EQ(rig.Value(outputs[0]), std::to_string(2 * value + 1));
  };
  for (int i = 0; i < 3; ++i) call(1, i, mine);
  ASSERT_EQ(rig.tree.counters().replays, 1);
  for (int i = 10; i < 13; ++i) call(2, i, theirs);
  EXPECT_EQ(rig.tree.counters().plain_runs, 3);
  EXPECT_EQ(rig.Value(mine[0]), "5");
  EXPECT_THAT(
      rig.Notes(),
      testing::ElementsAre(testing::HasSubstr("another thread holds outputs")));
  call(1, 4, mine);  // goes on
  EXPECT_EQ(rig.tree.counters().replays, 2);
  EXPECT_EQ(rig.framework.thread_changes, 0);
  mine.clear();
  call(2, 5, theirs);  // its turn
  EXPECT_EQ(rig.tree.counters().replays, 3);
  EXPECT_EQ(rig.framework.thread_changes, 1);
  call(1, 6, mine);
  EXPECT_EQ(rig.tree.counters().plain_runs, 4);
  EXPECT_EQ(rig.Value(theirs[0]), "11");
}

TEST(Threads, WhatAnotherThreadCallsBeginsAPath) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const int g = rig.Add(Scale(5, 0));
  FakeTensors x, y;
  for (int i = 0; i < 4; ++i) {
    rig.BeginCall();
    ASSERT_TRUE(rig.TryCall(f, {rig.Full(i)}, x, 1).ok());
    if (i == 3) x.clear();
    ASSERT_TRUE(rig.TryCall(g, {rig.Full(i)}, y, i < 3 ? 1 : 2).ok());
    EXPECT_EQ(rig.Value(y[0]), std::to_string(5 * i));
    if (i < 3) {
      EXPECT_EQ(rig.tree.current()->path.size(), 2u);
    }
    y.clear();
  }
  EXPECT_EQ(rig.tree.current()->path.size(), 1u);
}

// The next thread to come does not wait for it for ever.
TEST(Threads, ABackwardInAnotherThreadEndsTheWaiting) {
  TreeRig rig;
  const int forward = rig.Add(Scale(2, 1), {.mode = Mode::kForward});
  const int backward = rig.Add(Scale(3, 0), {.mode = Mode::kBackward});
  FakeTensors kept, out;
  ASSERT_TRUE(rig.TryCall(forward, {rig.Full(1)}, kept, 1).ok());
  EXPECT_TRUE(rig.tree.forwards_pending());
  ASSERT_TRUE(rig.TryCall(backward, {rig.Full(1)}, out, 2).ok());
  EXPECT_FALSE(rig.tree.forwards_pending());
  EXPECT_EQ(rig.Value(kept[0]), "3");
}

TEST(Threads, ABackwardThatGoesWithoutAGraphEndsTheWaiting) {
  TreeRig rig;
  const int forward = rig.Add(Scale(2, 1), {.mode = Mode::kForward});
  const int backward = rig.Add(Scale(3, 0), {.mode = Mode::kBackward});
  ASSERT_TRUE(rig.tree.GoWithoutGraph(backward, "").ok());
  rig.Begin(forward, {rig.Full(1)});
  EXPECT_TRUE(rig.tree.forwards_pending());
  rig.Continue(backward, {rig.Full(1)});
  EXPECT_FALSE(rig.tree.forwards_pending());
}

TEST(Threads, AChangeThatHasFailedIsTriedAgain) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  FakeTensors out;
  ASSERT_TRUE(rig.TryCall(f, {rig.Full(1)}, out, 1).ok());
  out.clear();
  rig.framework.change_of_thread = absl::InternalError("no wait");
  EXPECT_EQ(rig.TryCall(f, {rig.Full(1)}, out, 2).message(), "no wait");
  rig.framework.change_of_thread = absl::OkStatus();
  ASSERT_TRUE(rig.TryCall(f, {rig.Full(2)}, out, 2).ok());
  EXPECT_EQ(rig.framework.thread_changes, 2);
  EXPECT_EQ(rig.Value(out[0]), "5");
}

}  // namespace
}  // namespace kiln::graph_tree
