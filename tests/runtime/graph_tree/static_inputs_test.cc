// Inputs that keep their addresses, or should; and inputs that are written.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/runtime/graph_tree/tree_rig.h"

namespace kiln::graph_tree {
namespace {

FakeTensors Sum(FakeFramework& framework, FakeTensors inputs) {
  return {framework.Affine(inputs, 1, 0, 4)};
}

FakeTensors AddsOneInPlace(FakeFramework& framework, FakeTensors inputs) {
  framework.AddInPlace(inputs[0], 1);
  return {framework.Affine(inputs, 2, 0, 4)};
}

TEST(StaticInputs, AreReadWhereTheyAre) {
  TreeRig rig;
  const int f = rig.Add(Sum, {.static_inputs = {0}});
  const FakeTensorPtr parameter = rig.Full(100);
  for (int i = 0; i < 4; ++i) {
    rig.framework.AddInPlace(parameter, 1);
    const FakeTensors out = rig.Begin(f, {parameter, rig.Full(i)});
    EXPECT_EQ(rig.Value(out[0]), std::to_string(101 + 2 * i));
  }
  EXPECT_EQ(rig.tree.counters().recorded_copied_inputs, 1);
  EXPECT_EQ(rig.tree.counters().recordings, 1);
}

TEST(StaticInputs, OneThatHasMovedIsRecordedAnewAndBothRecordingsServe) {
  TreeRig rig;
  const int f = rig.Add(Sum, {.static_inputs = {0}});
  const FakeTensorPtr parameters[] = {rig.Full(100), rig.Full(200)};
  for (int i = 0; i < 8; ++i) {
    const FakeTensors out = rig.Begin(f, {parameters[i / 2 % 2]});
    EXPECT_EQ(rig.Value(out[0]), i / 2 % 2 ? "200" : "100");
  }
  EXPECT_EQ(rig.Shape(), "0 1");
  EXPECT_EQ(rig.tree.counters().skips, 0);
  std::vector<TreeNote> notes = rig.tree.TakeNotes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].kind, TreeNote::Kind::kRerecord);
  EXPECT_EQ(notes[0].text.find("Re-recording function 0 due to static input "
                               "data pointer changed.\ninput name: "),
            0u);
}

// Four cells, at an address that is a multiple of 16 or 8 bytes behind one.
FakeTensorPtr CellsAt(TreeRig& rig, bool aligned) {
  const FakeTensorPtr whole = rig.Full(100, 6);
  const bool is_first = reinterpret_cast<uintptr_t>(whole->address()) % 16 == 0;
  return rig.framework.View(whole, is_first == aligned ? 0 : 1, 4);
}

TEST(StaticInputs, OneThatMovesToAnAddressThatIsNotAlignedIsCopied) {
  TreeRig rig;
  const int f = rig.Add(Sum, {.static_inputs = {0}, .static_alignment = 16});
  const FakeTensorPtr aligned = CellsAt(rig, true);
  for (int i = 0; i < 3; ++i) rig.Begin(f, {aligned});
  EXPECT_EQ(rig.tree.counters().recorded_copied_inputs, 0);
  const FakeTensorPtr beside = CellsAt(rig, false);
  for (int i = 1; i < 4; ++i) {
    rig.framework.AddInPlace(beside, 1);
    EXPECT_EQ(rig.Value(rig.Begin(f, {beside})[0]), std::to_string(100 + i));
  }
  EXPECT_EQ(rig.tree.counters().recorded_copied_inputs, 1);
  ASSERT_EQ(rig.Shape(), "0 1");
  EXPECT_EQ(rig.tree.Roots()[0]->addresses[0], aligned->address());
  EXPECT_EQ(rig.tree.Roots()[1]->addresses[0], nullptr);
  EXPECT_EQ(rig.Value(rig.Begin(f, {aligned})[0]), "100");
}

TEST(StaticInputs, OneThatHasMovedIsAnErrorWhereItIsNotRecordedAnew) {
  TreeRig rig;
  const int f =
      rig.Add(Sum, {.static_inputs = {0, 1},
                    .input_names = {"w", "b"},
                    .input_traces = {"here", "there"},
                    .options = {.rerecord_on_moved_static_input = false}});
  const FakeTensorPtr weight = rig.Full(1), bias = rig.Full(2);
  for (int i = 0; i < 3; ++i) rig.Begin(f, {weight, bias});
  const FakeTensorPtr moved[] = {rig.Full(1), rig.Full(2)};
  FakeTensors out;
  const absl::Status status = rig.TryCall(f, {moved[0], moved[1]}, out);
  const auto number = [](const FakeTensorPtr& tensor) {
    return std::to_string(reinterpret_cast<uintptr_t>(tensor->address()));
  };
  EXPECT_EQ(status.message(),
            "static input data pointer changed.\n"
            "input name: w. data pointer changed from " +
                number(weight) + " to " + number(moved[0]) +
                ". input stack trace: here\n"
                "input name: b. data pointer changed from " +
                number(bias) + " to " + number(moved[1]) +
                ". input stack trace: there\n");
  EXPECT_EQ(rig.Value(rig.Begin(f, {weight, bias})[0]), "3");
}

TEST(StaticInputs, BeyondTheLimitAFunctionGoesWithoutAGraph) {
  TreeRig rig;
  const int f =
      rig.Add(Sum, {.static_inputs = {0}, .options = {.rerecord_limit = 2}});
  std::vector<FakeTensorPtr> parameters;
  for (int i = 0; i < 7; ++i) {
    parameters.push_back(rig.Full(i));
    EXPECT_EQ(rig.Value(rig.Begin(f, {parameters.back()})[0]),
              std::to_string(i));
  }
  EXPECT_EQ(rig.tree.counters().recordings, 3);
  EXPECT_EQ(rig.tree.counters().skips, 1);
  const std::vector<std::string> notes = rig.Notes();
  ASSERT_EQ(notes.size(), 1u);
  const std::string start =
      "skipping cudagraph due to function 0 exceeding max re-recording limit "
      "(=2) on cudagraph node None due to static input data pointer changed.";
  EXPECT_EQ(notes[0].substr(0, start.size()), start);
}

TEST(StaticInputs, EachFunctionHasItsOwnLimit) {
  TreeRig rig;
  const int few =
      rig.Add(Sum, {.static_inputs = {0}, .options = {.rerecord_limit = 0}});
  const int many =
      rig.Add(Sum, {.static_inputs = {0}, .options = {.rerecord_limit = 9}});
  std::vector<FakeTensorPtr> parameters;
  for (int i = 0; i < 5; ++i) {
    parameters.push_back(rig.Full(i));
    for (const int f : {few, many}) rig.Begin(f, {parameters.back()});
  }
  EXPECT_EQ(rig.tree.counters().recordings, 1 + 4);
  EXPECT_EQ(rig.tree.counters().skips, 1);
}

TEST(StaticInputs, AManagedInputThatHasMovedCountsAgainstItsNode) {
  TreeRig rig;
  const int f = rig.Add([](FakeFramework& framework, FakeTensors inputs) {
    return FakeTensors{framework.Affine(inputs, 1, 1, 4),
                       framework.Affine(inputs, 1, 2, 4)};
  });
  const int g = rig.Add(Scale(5, 0), {.options = {.rerecord_limit = 0}});
  for (int i = 0; i < 5; ++i) {
    const FakeTensors x = rig.Begin(f, {rig.Full(0)});
    const FakeTensors out = rig.Continue(g, {x[i < 3 ? 0 : 1]});
    EXPECT_EQ(rig.Value(out[0]), i < 3 ? "5" : "10");
  }
  EXPECT_EQ(rig.tree.counters().skips, 1);
  const std::vector<std::string> notes = rig.Notes();
  ASSERT_EQ(notes.size(), 1u);
  const std::string start =
      "skipping cudagraph due to function 1 exceeding max re-recording limit "
      "(=0) on cudagraph node 0 due to cudagraph managed tensor data pointer "
      "changed.";
  EXPECT_EQ(notes[0].substr(0, start.size()), start);
}

TEST(WrittenInputs, AParameterMayBeWritten) {
  TreeRig rig;
  const int f =
      rig.Add(AddsOneInPlace, {.static_inputs = {0}, .mutated_inputs = {0}});
  const FakeTensorPtr parameter = rig.Full(0);
  for (int i = 1; i < 5; ++i) {
    EXPECT_EQ(rig.Value(rig.Begin(f, {parameter})[0]), std::to_string(2 * i));
    EXPECT_EQ(rig.Value(parameter), std::to_string(i));
  }
  EXPECT_EQ(rig.Shape(), "0");
}

// A replay would write to the copy.
TEST(WrittenInputs, AParameterThatIsNotAlignedMayNot) {
  TreeRig rig;
  const int f = rig.Add(
      AddsOneInPlace,
      {.static_inputs = {0}, .static_alignment = 16, .mutated_inputs = {0}});
  const FakeTensorPtr aligned = CellsAt(rig, true);
  const FakeTensorPtr beside = CellsAt(rig, false);
  for (int i = 1; i < 4; ++i) {
    rig.Begin(f, {aligned});
    EXPECT_EQ(rig.Value(aligned), std::to_string(100 + i));
  }
  EXPECT_EQ(rig.tree.counters().replays, 1);
  for (int i = 1; i < 4; ++i) {
    rig.Begin(f, {beside});
    EXPECT_EQ(rig.Value(beside), std::to_string(100 + i));
  }
  EXPECT_EQ(rig.Notes(),
            std::vector<std::string>{
                "skipping cudagraphs due to mutated inputs (1 instances)"});
}

// What may be written may be written in this call, and not in the next one.
TEST(WrittenInputs, AreLookedAtAgainBehindARecordingThatFailed) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const int g = rig.Add(AddsOneInPlace, {.mutated_inputs = {0},
                                         .options = {.skip_warm_up = true}});
  for (int i = 0; i < 2; ++i) rig.Begin(f, {rig.Full(i)});
  const FakeTensors managed = rig.Begin(f, {rig.Full(5)});
  FakeTensors out;
  rig.framework.FailNext(absl::InternalError("of the body"));
  EXPECT_EQ(rig.TryCall(g, {managed[0]}, out).message(), "of the body");
  const FakeTensorPtr other = rig.Full(7);
  EXPECT_EQ(rig.Value(rig.Continue(g, {other})[0]), "16");
  EXPECT_EQ(rig.Value(other), "8");
  EXPECT_EQ(rig.tree.counters().skips, 1);
}

TEST(WrittenInputs, AnotherInputMayNotAndTheReasonIsSaidOnce) {
  TreeRig rig;
  const int f = rig.Add(AddsOneInPlace,
                        {.mutated_inputs = {0}, .mutation_trace = "x.add_(1)"});
  for (int i = 0; i < 4; ++i) {
    const FakeTensorPtr x = rig.Full(i);
    EXPECT_EQ(rig.Value(rig.Begin(f, {x})[0]), std::to_string(2 * i + 2));
    EXPECT_EQ(rig.Value(x), std::to_string(i + 1));
  }
  EXPECT_EQ(rig.Shape(), "");
  EXPECT_EQ(rig.tree.counters().plain_runs, 4);
  EXPECT_EQ(rig.tree.counters().skips, 1);
  const std::vector<std::string> notes = rig.Notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "skipping cudagraphs due to mutated inputs (1 instances). Found "
            "from : \n x.add_(1)");
}

TEST(WrittenInputs, AnOutputOfAnEarlierGraphMayBeWrittenAndItsCloneNot) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const int g = rig.Add(AddsOneInPlace, {.mutated_inputs = {0}});
  for (int i = 0; i < 4; ++i) {
    const FakeTensors x = rig.Begin(f, {rig.Full(i)});
    const FakeTensors out = rig.Continue(g, {x[0]});
    EXPECT_EQ(rig.Value(x[0]), std::to_string(2 * i + 2));
    EXPECT_EQ(rig.Value(out[0]), std::to_string(4 * i + 4));
  }
  EXPECT_EQ(rig.tree.counters().skips, 0);
  EXPECT_EQ(rig.Shape(), "0(1)");
  const FakeTensors x = rig.Begin(f, {rig.Full(3)});
  const FakeTensorPtr clone = rig.Full(7);
  EXPECT_EQ(rig.Value(rig.Continue(g, {clone})[0]), "16");
  EXPECT_EQ(rig.Value(clone), "8");
  EXPECT_EQ(rig.Value(x[0]), "7");
  EXPECT_EQ(rig.tree.counters().skips, 1);
}

TEST(WrittenInputs, WithoutThatNoOutputMayBeWritten) {
  TreeRig rig;
  const int f = rig.Add(Scale(2, 1));
  const int g = rig.Add(AddsOneInPlace,
                        {.mutated_inputs = {0},
                         .options = {.mutation_of_managed_inputs = false}});
  for (int i = 0; i < 4; ++i) {
    const FakeTensors x = rig.Begin(f, {rig.Full(i)});
    rig.Continue(g, {x[0]});
    EXPECT_EQ(rig.Value(x[0]), std::to_string(2 * i + 2));
  }
  EXPECT_EQ(rig.tree.counters().skips, 1);
}

TEST(WrittenInputs, ASkipIsAnErrorWhereAsked) {
  TreeRig rig;
  const int f = rig.Add(AddsOneInPlace, {.mutated_inputs = {0},
                                         .options = {.skip_is_error = true}});
  FakeTensors out;
  EXPECT_EQ(rig.TryCall(f, {rig.Full(0)}, out).message(),
            "skipping cudagraphs due to mutated inputs (1 instances)");
}

TEST(PoolChecks, AStrayBlockIsFound) {
  TreeRig rig;
  FakeTensors stray;
  const int f = rig.Add([&](FakeFramework& framework, FakeTensors inputs) {
    stray.push_back(framework.Full(4, 0));  // a workspace that stays, say
    return Sum(framework, std::move(inputs));
  });
  FakeTensors out;
  rig.framework.origin = "by a library";
  EXPECT_EQ(rig.TryCall(f, {rig.Full(0)}, out).message(),
            "Detected 1 tensor(s) in the cudagraph pool not tracked as "
            "outputs. All live allocations must be tracked for correctness.\n"
            "by a library");
}

TEST(PoolChecks, WhatAnotherLeftIsFoundBeforeAWarmUp) {
  for (const int calls_before : {1, 3}) {  // a warm-up, or a replay
    SCOPED_TRACE(calls_before);
    TreeRig rig;
    FakeTensors stray;
    rig.checks_pool = false;
    const int f = rig.Add([&](FakeFramework& framework, FakeTensors inputs) {
      if (stray.empty()) stray.push_back(framework.Full(4, 0));
      return Sum(framework, std::move(inputs));
    });
    rig.checks_pool = true;
    const int g = rig.Add(Sum);
    FakeTensors held;
    for (int i = 0; i < calls_before; ++i) held = rig.Begin(f, {rig.Full(0)});
    const int bodies = rig.framework.bodies_run();
    FakeTensors out;
    EXPECT_EQ(rig.TryCall(g, {rig.Full(0)}, out).message(),
              "Detected 1 tensor(s) in the cudagraph pool not tracked as "
              "outputs. All live allocations must be tracked for correctness.");
    EXPECT_EQ(rig.framework.bodies_run(), bodies);
  }
}

TEST(PoolChecks, ABlockThatIsKeptInTheRecordingIsFound) {
  TreeRig rig;
  FakeTensors stray;
  int runs = 0;
  const int f = rig.Add([&](FakeFramework& framework, FakeTensors inputs) {
    if (++runs == 2) stray.push_back(framework.Full(4, 0));
    return Sum(framework, std::move(inputs));
  });
  rig.Begin(f, {rig.Full(0)});
  FakeTensors out;
  EXPECT_EQ(rig.TryCall(f, {rig.Full(0)}, out).message(),
            "Detected 1 tensor(s) in the cudagraph pool not tracked as "
            "outputs. All live allocations must be tracked for correctness.");
  EXPECT_EQ(rig.Shape(), "");
  stray.clear();
  out.clear();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.Value(rig.Begin(f, {rig.Full(i)})[0]), std::to_string(i));
  }
}

class OutsideOfThePool : public testing::TestWithParam<bool> {};

// What fails each time is given up.
TEST_P(OutsideOfThePool, AResultIsNoOutputOfARecording) {
  TreeRig rig;
  rig.checks_pool = GetParam();
  const FakeTensorPtr outside = rig.Full(7);
  const int f =
      rig.Add([&](FakeFramework&, FakeTensors) { return FakeTensors{outside}; },
              {.options = {.skip_warm_up = true}});
  const std::string message = absl::StrCat(
      "These storage data ptrs are not allocated in pool (0, 1) but should "
      "be: {",
      reinterpret_cast<uintptr_t>(outside->address()), "}.");
  FakeTensors out;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.TryCall(f, {rig.Full(i)}, out).message(), message);
  }
  EXPECT_EQ(rig.tree.counters().recordings, 0);
  const std::vector<std::string> notes = rig.Notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "skipping cudagraph since the warm-up or the recording of function "
            "0 failed 3 times in a row");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(rig.Value(rig.Begin(f, {rig.Full(i)})[0]), "7");
  }
  EXPECT_EQ(rig.tree.counters().plain_runs, 2);
}

INSTANTIATE_TEST_SUITE_P(WhetherThePoolIsCheckedOrNot, OutsideOfThePool,
                         testing::Bool());

}  // namespace
}  // namespace kiln::graph_tree
