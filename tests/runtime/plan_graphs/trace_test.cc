// What a trace has of calls that are warmed up, recorded and replayed.
#include "runtime/trace.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/plan_graphs/plan_graphs_rig.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// y = x by a kernel, which the null device does not run.
constexpr char kLaunches[] = R"(
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
  kernels { symbol: "a_5f" label: "kiln_poi_fused_add_0" }
  kernels { symbol: "b_5f" label: "kiln_red_fused_sum_1" }
  steps { launch { kernel: 0 grid { value: 1 } grid { value: 1 } grid { value: 1 }
    block: 1 block: 1 block: 1 args { buffer { buffer: 0 } } args { buffer { buffer: 1 } } } }
  steps { launch { kernel: 1 grid { value: 1 } grid { value: 1 } grid { value: 1 }
    block: 1 block: 1 block: 1 args { buffer { buffer: 0 } } args { buffer { buffer: 1 } } } }
  outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } })";

class Traced : public PlanGraphsTest {
 protected:
  // "category name" of each event of a call in an iteration of its own.
  std::vector<std::string> EventsOf(int plan) {
    Trace trace;
    Begin(plan, {Vector(1)}, {.trace = &trace});
    std::vector<std::string> words;
    for (const TraceEvent& event : trace.events()) {
      EXPECT_GE(event.duration_ns, 0);
      words.push_back(absl::StrCat(event.category, " ", event.name,
                                   event.kernels.empty() ? "" : ": ",
                                   absl::StrJoin(event.kernels, ",")));
    }
    json_ = trace.ToJson();
    return words;
  }
  std::string json_;
};

TEST_F(Traced, AReplayIsOneEventWithItsKernelsAndACaptureIsNone) {
  const int plan = Add(kLaunches);
  EXPECT_THAT(EventsOf(plan),
              ElementsAre("kernel kiln_poi_fused_add_0",
                          "kernel kiln_red_fused_sum_1", "run run"));
  const std::string replay =
      "graph kiln_graph_replay: kiln_poi_fused_add_0,kiln_red_fused_sum_1";
  EXPECT_THAT(EventsOf(plan), ElementsAre(replay));  // recorded, and run once
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_THAT(EventsOf(plan), ElementsAre(replay));
  EXPECT_EQ(counters().replays, 1);
  EXPECT_THAT(
      json_,
      HasSubstr("\"args\":{\"kernels\":[\"kiln_poi_fused_add_0\",\"kiln_red_"
                "fused_sum_1\"]}"));
}

TEST_F(Traced, AReplayWithoutKernelsIsAnEventToo) {
  const int plan = Add(CopyPlan());
  for (int i = 0; i < 2; ++i) Begin(plan, {Vector(1)});
  EXPECT_THAT(EventsOf(plan), ElementsAre("graph kiln_graph_replay"));
}

TEST_F(Traced, AReplayIsWaitedFor) {
  const int plan = Add(CopyPlan());
  for (int i = 0; i < 2; ++i) Begin(plan, {Vector(1)});
  device_->TakeLog();
  Begin(plan, {Vector(1)});
  EXPECT_THAT(device_->TakeLog(), Not(Contains(HasSubstr("synchronize"))));
  EventsOf(plan);
  EXPECT_THAT(device_->TakeLog(), Contains(HasSubstr("synchronize")));
}

}  // namespace
}  // namespace kiln
