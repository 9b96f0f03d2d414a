#include "runtime/graph_tree/graph_tree.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/graph_tree/tree_rig.h"

namespace kiln::graph_tree {
namespace {

TEST(GraphTree, WarmsUpThenRecordsThenReplays) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  EXPECT_EQ(rig.tree.state(), TreeState::kNone);
  const TreeState states[] = {TreeState::kWarmUp, TreeState::kRecording,
                              TreeState::kExecution, TreeState::kExecution};
  for (int i = 0; i < 4; ++i) {
    const FakeTensors out = rig.Begin(f, {rig.Full(i)});
    EXPECT_EQ(rig.Value(out[0]), std::to_string(2 * i + 1));
    EXPECT_EQ(rig.tree.state(), states[i]);
  }
  EXPECT_EQ(rig.Shape(), "0");
  EXPECT_EQ(rig.framework.bodies_run(), 2);
  EXPECT_EQ(rig.tree.counters().replays, 2);
  EXPECT_EQ(rig.tree.counters().recorded_copied_inputs, 1);
}

TEST(GraphTree, AReplayGivesTheSameTensorAgain) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const FakeTensor* first = nullptr;
  for (int i = 0; i < 4; ++i) {
    const FakeTensors out = rig.Begin(f, {rig.Full(i)});
    if (i == 2) first = out[0].get();
    if (i == 3) {
      EXPECT_EQ(out[0].get(), first);
    }
  }
}

TEST(GraphTree, AFunctionThatIsCalledTwiceInAnIterationIsAChildOfItself) {
  TreeRig rig;
  const int f = rig.Add(Scale(3, 0));
  for (int i = 0; i < 4; ++i) {
    FakeTensors x = rig.Begin(f, {rig.Full(1)});
    x = rig.Continue(f, {x[0]});
    EXPECT_EQ(rig.Value(x[0]), "9");
  }
  EXPECT_EQ(rig.Shape(), "0(1)");
  EXPECT_EQ(rig.tree.counters().checkpoints, 0);
}

TEST(GraphTree, OutputsOfEarlierGraphsAreReadWhereTheyAre) {
  TreeRig rig;
  const int f = rig.Add(Scale(3, 0));
  for (int i = 0; i < 4; ++i) {
    FakeTensors x = rig.Begin(f, {rig.Full(1)});
    x = rig.Continue(f, {x[0]});
  }
  // One for the root, none for its child.
  EXPECT_EQ(rig.tree.counters().recorded_copied_inputs, 1);
}

TEST(GraphTree, BlocksAreTheLiveOutputsUntilReplaysGoWithoutThem) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  for (int i = 0; i < 3; ++i) {
    FakeTensors out = rig.Begin(f, {rig.Full(i)});
    EXPECT_EQ(rig.Blocks(), i < 2 ? 1u : 0u) << i;
    out.clear();
    EXPECT_EQ(rig.Blocks(), 0u) << i;
  }
}

TEST(GraphTree, ARecordingBehindAReplayRestoresThePool) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const int g = rig.Add(Scale(5, 0));
  FakeTensors kept;
  for (int i = 0; i < 3; ++i) kept = rig.Begin(f, {rig.Full(i)});
  EXPECT_EQ(rig.Blocks(), 0u);
  // A warm-up, then a recording in the next iteration.
  FakeTensors out = rig.Continue(g, {rig.Full(1)});
  EXPECT_EQ(rig.tree.counters().checkpoints, 1);
  EXPECT_EQ(rig.Blocks(), 2u);
  EXPECT_EQ(rig.Value(kept[0]), "5");
  EXPECT_EQ(rig.Value(out[0]), "5");
  kept = rig.Begin(f, {rig.Full(7)});
  out = rig.Continue(g, {rig.Full(2)});
  EXPECT_EQ(rig.tree.counters().checkpoints, 2);
  EXPECT_EQ(rig.Value(kept[0]), "15");
  EXPECT_EQ(rig.Value(out[0]), "10");
  EXPECT_EQ(rig.Blocks(), 2u);
  kept.clear();
  EXPECT_EQ(rig.Blocks(), 1u);
  EXPECT_EQ(rig.Shape(), "0(1)");
}

TEST(GraphTree, WhatDiedSinceTheRecordingIsFreeInTheRestoredPool) {
  TreeRig rig;
  const int f = rig.Add([](FakeFramework& framework, FakeTensors inputs) {
    return FakeTensors{framework.Affine(inputs, 1, 1, 4),
                       framework.Affine(inputs, 1, 2, 4)};
  });
  const int g = rig.Add(Scale(5, 0));
  FakeTensors kept;
  for (int i = 0; i < 3; ++i) kept = rig.Begin(f, {rig.Full(i)});
  kept[0] = nullptr;
  const FakeTensors out = rig.Continue(g, {rig.Full(1)});
  EXPECT_EQ(rig.Blocks(), 2u);
  EXPECT_EQ(rig.Value(kept[1]), "4");
}

TEST(GraphTree, ARecordingServesOnlyWhereWhatWasDeadIsDead) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const int g = rig.Add(Scale(5, 0));
  // Twice g behind a dead f, so that g may lie in its memory.
  for (int i = 0; i < 3; ++i) {
    rig.Begin(f, {rig.Full(i)});
    FakeTensors kept = rig.Continue(f, {rig.Full(i)});
    rig.Continue(g, {rig.Full(1)});
    EXPECT_EQ(rig.Value(kept[0]), std::to_string(2 * i + 1));
  }
  const auto recordings = rig.tree.counters().recordings;
  const FakeTensors kept_too = rig.Begin(f, {rig.Full(8)});
  const FakeTensors kept = rig.Continue(f, {rig.Full(9)});
  const FakeTensors out = rig.Continue(g, {rig.Full(1)});
  EXPECT_GT(rig.tree.counters().recordings, recordings);
  EXPECT_EQ(rig.Value(kept_too[0]), "17");
  EXPECT_EQ(rig.Value(kept[0]), "19");
  EXPECT_EQ(rig.Value(out[0]), "5");
}

TEST(GraphTree, AStaleOutputOfARecordingSaysSo) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1), {.output_traces = {"model.py, line 3"}});
  rig.Begin(f, {rig.Full(0)});
  const FakeTensors stale = rig.Begin(f, {rig.Full(1)});
  const FakeTensorPtr view = rig.framework.View(stale[0], 1, 2);
  rig.Begin(f, {rig.Full(2)});
  const std::string text =
      "Error: accessing tensor output of CUDAGraphs that has been overwritten "
      "by a subsequent run. Stack trace: model.py, line 3. To prevent "
      "overwriting, clone the tensor outside of torch.compile() or call "
      "torch.compiler.cudagraph_mark_step_begin() before each model "
      "invocation.";
  EXPECT_EQ(rig.Value(stale[0]), text);
  EXPECT_EQ(rig.Value(view), text);
}

TEST(GraphTree, AForwardThatWaitsForItsBackwardIsNotWrittenOver) {
  TreeRig rig;
  const int forward = rig.Add(Scale(2, 1), {.mode = Mode::kForward});
  const int backward = rig.Add(Scale(3, 0), {.mode = Mode::kBackward});
  for (int i = 0; i < 4; ++i) {
    const FakeTensors first = rig.Begin(forward, {rig.Full(i)});
    EXPECT_TRUE(rig.tree.forwards_pending());
    const FakeTensors second = rig.Begin(forward, {rig.Full(i + 10)});
    EXPECT_EQ(rig.Value(first[0]), std::to_string(2 * i + 1));
    EXPECT_EQ(rig.Value(second[0]), std::to_string(2 * i + 21));
    rig.Continue(backward, {second[0]});
    EXPECT_FALSE(rig.tree.forwards_pending());
  }
}

// Gradient accumulation: the first backward's result is the gradient, the
// second's is added to it; warmed up, recorded, replayed.
TEST(GraphTree, AGradientThatIsAddedToIsNotWrittenOver) {
  TreeRig rig;
  const int forward = rig.Add(Scale(2, 1), {.mode = Mode::kForward});
  const int backward = rig.Add(Scale(3, 0), {.mode = Mode::kBackward});
  FakeTensorPtr gradient;
  rig.framework.gradients = {&gradient};
  for (int i = 0; i < 5; ++i) {
    for (int part = 0; part < 2; ++part) {
      const FakeTensors loss = rig.Begin(forward, {rig.Full(10 * i + part)});
      FakeTensorPtr given = rig.Continue(backward, {loss[0]})[0];
      if (gradient == nullptr) {
        gradient = std::move(given);
      } else {
        rig.framework.AddInPlace(gradient, std::stoi(rig.Value(given)));
      }
    }
    EXPECT_EQ(rig.Value(gradient), std::to_string(3 * (40 * i + 4))) << i;
    gradient = nullptr;
  }
  EXPECT_EQ(rig.Shape(), "0(1)");
  EXPECT_GE(rig.tree.counters().replays, 16);
}

TEST(GraphTree, WarnsOnceOfForwardsThatWaitWithoutEnd) {
  TreeRig rig;
  const int forward = rig.Add(Scale(2, 1), {.mode = Mode::kForward});
  FakeTensors kept;
  for (int i = 0; i < 6; ++i) {
    kept.push_back(rig.Begin(forward, {rig.Full(i)})[0]);
  }
  EXPECT_EQ(rig.tree.counters().recordings, 0);
  ASSERT_EQ(rig.Notes().size(), 1u);
  rig.MarkStepBegin();
  rig.Continue(forward, {rig.Full(0)});
  EXPECT_EQ(rig.tree.counters().recordings, 1);
}

// It is no pattern that comes again where each call has another parent.
TEST(GraphTree, ForwardsBehindDifferentFunctionsAreNotWarnedOf) {
  TreeRig rig;
  const int forward = rig.Add(Scale(2, 1), {.mode = Mode::kForward});
  FakeTensors kept;
  for (int i = 0; i < 5; ++i) {
    kept.push_back(rig.Begin(forward, {rig.Full(i)})[0]);
    kept.push_back(rig.Begin(rig.Add(Scale(3, i)), {rig.Full(i)})[0]);
  }
  EXPECT_THAT(rig.Notes(), testing::IsEmpty());
}

TEST(GraphTree, AnOutputOfAnotherDeviceIsNamedAndTheNextCallWorks) {
  TreeRig rig;
  const FakeTensorPtr host = rig.Full(3);
  host->storage()->on_device = false;
  const int f =
      rig.Add([&](FakeFramework&, FakeTensors) { return FakeTensors{host}; },
              {.output_traces = {"model.py, line 3"}});
  const int g = rig.Add(Scale(5, 0));
  rig.Begin(f, {rig.Full(1)});
  FakeTensors out;
  rig.BeginCall();
  const absl::Status status = rig.TryCall(f, {rig.Full(1)}, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "Expected all cuda outputs in cuda graph recording. Non cuda output "
      "from model.py, line 3");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.Value(rig.Begin(g, {rig.Full(i)})[0]), std::to_string(5 * i));
  }
}

TEST(GraphTree, RecordingsOfARemovedFunctionGoWhenTheirPathHasEnded) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const int g = rig.Add(Scale(5, 0));
  for (int i = 0; i < 3; ++i) {
    FakeTensors kept = rig.Begin(f, {rig.Full(i)});
    rig.Continue(g, {kept[0]});
    kept.clear();
    rig.Begin(g, {rig.Full(i)});
  }
  const FakeTensors kept = rig.Begin(f, {rig.Full(7)});
  const std::string before = rig.Shape();
  rig.tree.RemoveFunction(f);
  EXPECT_EQ(rig.Shape(), before);
  EXPECT_EQ(rig.Value(kept[0]), "15");
  EXPECT_EQ(rig.Value(rig.Begin(g, {rig.Full(2)})[0]), "10");
  ASSERT_EQ(rig.tree.Roots().size(), 1u);
  EXPECT_EQ(rig.tree.Roots()[0]->function->id, g);
  rig.tree.RemoveFunction(g);
  EXPECT_EQ(rig.Shape(), "");
}

TEST(GraphTree, ItKeepsTheLastNotes) {
  TreeRig rig;
  for (int i = 0; i < GraphTree::kMostNotes + 5; ++i) {
    rig.tree.Tell({TreeNote::Kind::kWarning, 0, std::to_string(i)});
  }
  const std::vector<TreeNote> notes = rig.tree.TakeNotes();
  ASSERT_EQ(notes.size(), GraphTree::kMostNotes);
  EXPECT_EQ(notes.front().text, "5");
}

TEST(GraphTree, AMarkedStepEndsAPathWhateverWaits) {
  TreeRig rig;
  const int forward = rig.Add(Scale(2, 1), {.mode = Mode::kForward});
  FakeTensors kept;
  for (int i = 0; i < 4; ++i) {
    rig.MarkStepBegin();
    kept = rig.Continue(forward, {rig.Full(i)});
  }
  EXPECT_EQ(rig.Value(kept[0]), "7");
  EXPECT_EQ(rig.Shape(), "0");
  EXPECT_EQ(rig.tree.counters().replays, 2);
}

TEST(GraphTree, AfterShutdownNothingIsHeldAndACallIsAnError) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  for (int i = 0; i < 3; ++i) rig.Begin(f, {rig.Full(i)});
  rig.tree.Shutdown();
  EXPECT_EQ(rig.Shape(), "");
  EXPECT_EQ(rig.Blocks(), 0u);
  FakeTensors out;
  const absl::Status status = rig.TryCall(f, {rig.Full(1)}, out);
  EXPECT_EQ(status.message(), "Running CUDAGraph after shutdown");
}

// A replay allocates nothing, so nobody would know that they are in use.
TEST(GraphTree, WhatIsHeldAtAShutdownOwnsItsMemory) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  for (int i = 0; i < 2; ++i) rig.Begin(f, {rig.Full(i)});
  FakeTensors held = rig.Begin(f, {rig.Full(4)});
  rig.tree.Shutdown();
  EXPECT_EQ(rig.Shape(), "");
  EXPECT_EQ(rig.Blocks(), 1u);
  EXPECT_EQ(rig.Value(held[0]), "9");
  held.clear();
  EXPECT_EQ(rig.Blocks(), 0u);
}

TEST(GraphTree, AFunctionThatIsAlwaysWarmedUpIsNeverRecorded) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1), {.options = {.always_warm_up = true}});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(rig.Value(rig.Begin(f, {rig.Full(i)})[0]),
              std::to_string(2 * i + 1));
  }
  EXPECT_EQ(rig.tree.counters().warm_ups, 4);
  EXPECT_EQ(rig.Shape(), "");
}

// In a framework another thread may do so, while the body lets it.
TEST(GraphTree, AShutdownInTheMiddleOfACallWaitsForItsEnd) {
  for (const bool in_warm_up : {true, false}) {
    TreeRig rig;
    const int f = rig.Add(Scale(2, 1));
    std::string shape_in_body;
    bool shuts_down = false;
    const int g = rig.Add([&](FakeFramework& framework, FakeTensors inputs) {
      if (shuts_down) {
        rig.tree.Shutdown();
        shape_in_body = rig.Shape();
      }
      return Scale(5, 0)(framework, std::move(inputs));
    });
    for (int i = 0; i < 3; ++i) rig.Begin(f, {rig.Full(i)});
    if (!in_warm_up) rig.Continue(g, {rig.Full(1)});
    FakeTensors kept = rig.Begin(f, {rig.Full(2)});
    shuts_down = true;
    FakeTensors out = rig.Continue(g, {kept[0]});
    // What runs still knows the path that it was called on.
    EXPECT_EQ(shape_in_body, "0");
    EXPECT_EQ(rig.Value(out[0]), "25");
    EXPECT_EQ(rig.Shape(), "");
    EXPECT_EQ(rig.tree.state(), TreeState::kNone);
    const absl::Status after = rig.TryCall(f, {rig.Full(1)}, out);
    EXPECT_EQ(after.message(), "Running CUDAGraph after shutdown");
    kept.clear();
    out.clear();
    EXPECT_EQ(rig.Blocks(), 0u);
  }
}

TEST(GraphTree, AFailureInWarmUpOrRecordLeavesTheTreeInOrder) {
  for (const int failing : {0, 1}) {
    TreeRig rig;
    const int f = rig.Add(Scale(2, 1));
    const int g = rig.Add(Scale(5, 0));
    FakeTensors kept;
    for (int i = 0; i < 3; ++i) kept = rig.Begin(f, {rig.Full(i)});
    if (failing == 1) rig.Continue(g, {rig.Full(1)});
    if (failing == 1) kept = rig.Begin(f, {rig.Full(2)});
    // The pool was restored when this fails.
    rig.framework.FailNext(absl::ResourceExhaustedError("no memory"));
    FakeTensors out;
    EXPECT_FALSE(rig.TryCall(g, {rig.Full(1)}, out).ok());
    EXPECT_EQ(rig.tree.state(), TreeState::kRecording);
    EXPECT_EQ(rig.Blocks(), 1u);
    out = rig.Continue(g, {rig.Full(1)});
    EXPECT_EQ(rig.Value(out[0]), "5");
    EXPECT_EQ(rig.Value(kept[0]), "5");
    for (int i = 0; i < 3; ++i) {
      kept = rig.Begin(f, {rig.Full(i)});
      out = rig.Continue(g, {rig.Full(i)});
      EXPECT_EQ(rig.Value(kept[0]), std::to_string(2 * i + 1));
      EXPECT_EQ(rig.Value(out[0]), std::to_string(5 * i));
    }
  }
}

// What is alive keeps its memory; what was recorded is recorded anew.
TEST(GraphTree, WhereAFailureLosesThePoolTheRecordingsGoWithIt) {
  for (const bool in_warm_up : {false, true}) {
    TreeRig rig;
    rig.framework.LosePools();
    const int f = rig.Add(Scale(2, 1));
    const int g = rig.Add(Scale(5, 0));
    FakeTensors kept;
    for (int i = 0; i < 3; ++i) kept = rig.Begin(f, {rig.Full(i)});
    if (!in_warm_up) {
      rig.Continue(g, {rig.Full(1)});
      kept = rig.Begin(f, {rig.Full(2)});
    }
    ASSERT_EQ(rig.tree.counters().recordings, 1);
    rig.framework.FailNext(absl::InternalError("no memory"));
    FakeTensors out;
    EXPECT_FALSE(rig.TryCall(g, {rig.Full(1)}, out).ok());
    EXPECT_EQ(rig.tree.state(), TreeState::kNone);
    EXPECT_EQ(rig.Shape(), "");
    EXPECT_THAT(rig.Notes(),
                testing::ElementsAre(
                    "all recordings are dropped, since the warm-up or the "
                    "recording of function 1 failed in their pool"));
    EXPECT_EQ(rig.Value(kept[0]), "5");
    EXPECT_EQ(rig.Blocks(), 1u);
    for (int i = 0; i < 4; ++i) {
      const FakeTensors first = rig.Begin(f, {rig.Full(i)});
      out = rig.Continue(g, {rig.Full(i)});
      EXPECT_EQ(rig.Value(first[0]), std::to_string(2 * i + 1));
      EXPECT_EQ(rig.Value(out[0]), std::to_string(5 * i));
      EXPECT_EQ(rig.Value(kept[0]), "5");
    }
    EXPECT_EQ(rig.tree.counters().warm_ups, 2);
    EXPECT_EQ(rig.tree.counters().recordings, 3);
    out.clear();
    kept.clear();
    EXPECT_EQ(rig.Blocks(), 0u);
  }
}

TEST(GraphTree, ACallInsideOfAFunctionGoesWithoutAGraph) {
  TreeRig rig;
  const int inner = rig.Add(Scale(2, 0));
  const int outer = rig.Add([&](FakeFramework&, FakeTensors inputs) {
    return rig.Continue(inner, std::move(inputs));
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.Value(rig.Begin(outer, {rig.Full(i)})[0]),
              std::to_string(2 * i));
  }
  EXPECT_EQ(rig.tree.counters().recordings, 1);
}

}  // namespace
}  // namespace kiln::graph_tree
