#include "client/compilectl/show_trace.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/plan/plan_text.h"

namespace kiln {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

constexpr char kPlan[] = R"(launch_plan (s0 in [1, 64] from size 0 0) {
  input f32 [s0] strides [1] offset 0 cpu
  buffer b0 "x" input 0 bytes 4*s0
  buffer b1 "y" output bytes 4*s0
  kernel k0 kiln_poi_fused_add_sin_5f0c label kiln_poi_fused_add_sin_0 module 0
    from [add, sin] reads 4*s0 writes 4*s0 mapped "XBLOCK=16" over [s0]
  launch k0 grid [1, 1, 1] block [1, 1, 1] args [b0, b1] nodes [0, 2]
  extern mm (b0 f32 [4, 4] strides [4, 1] offset 0) -> (b1 f32 [4, 4] strides [4, 1] offset 0) nodes [1]
  fill b1 f32 [4] strides [1] offset 0 bits 0
  output view b1 f32 [s0] strides [1] offset 0
  arena 0 bytes, peak live 0
}
)";

void AddPhase(wire::ShowReply& reply, const char* name, int64_t start_us,
              int64_t duration_us, uint32_t row) {
  wire::JobPhase& phase = *reply.add_phases();
  phase.set_name(name);
  phase.set_category("job");
  phase.set_start_us(start_us);
  phase.set_duration_us(duration_us);
  phase.set_row(row);
}

wire::ShowReply Reply() {
  wire::ShowReply reply;
  reply.mutable_entry()->set_graph_name("forward_0");
  auto plan = ParsePlan(kPlan);
  EXPECT_TRUE(plan.ok()) << plan.status();
  *reply.mutable_artifact()->mutable_compiled()->mutable_plan() = *plan;
  for (const char* node :
       {"aten.add.Tensor(v0, v0) -> f32[s0]", "aten.mm(v1, v1) -> f32[4, 4]"}) {
    reply.add_nodes(node);
  }
  AddPhase(reply, "plan", 5, 900, 0);
  AddPhase(reply, "kiln_poi_fused_add_sin_5f0c", 905, 4000, 2);
  return reply;
}

// The events of a process that take time, in order.
std::vector<Json> Events(const Json& trace, int process) {
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == process) events.push_back(event);
  }
  return events;
}

TEST(ShowTrace, TheCompileHasARowForTheJobAndOneForEachBuildAtATime) {
  const Json trace = Json::parse(ShowTrace(Reply()));
  const std::vector<Json> events = Events(trace, 1);
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(events[0]["name"], "plan");
  EXPECT_EQ(events[0]["ts"], 5);
  EXPECT_EQ(events[0]["dur"], 900);
  EXPECT_EQ(events[1]["tid"], 2);
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names,
              ElementsAre("compile of forward_0", "job", "build 1", "build 2",
                          "plan: its steps in order, without times"));
}

TEST(ShowTrace, StepsAreInOrderWithTheNodesThatTheyDoWorkOf) {
  const std::vector<Json> steps =
      Events(Json::parse(ShowTrace(Reply())), /*process=*/2);
  ASSERT_EQ(steps.size(), 3);
  EXPECT_EQ(steps[0]["name"], "kiln_poi_fused_add_sin_0");
  EXPECT_EQ(steps[0]["cat"], "kernel");
  EXPECT_EQ(steps[0]["args"]["operators"], Json({"add", "sin"}));
  // Of node 2 the text is lost.
  EXPECT_EQ(steps[0]["args"]["nodes"],
            Json({"0: aten.add.Tensor(v0, v0) -> f32[s0]", "2"}));
  EXPECT_EQ(steps[0]["args"]["bytes_read"], "4*s0");
  EXPECT_EQ(steps[0]["args"]["step"],
            "launch k0 grid [1, 1, 1] block [1, 1, 1] args [b0, b1] nodes [0, "
            "2]");
  EXPECT_EQ(steps[1]["name"], "mm");
  EXPECT_EQ(steps[1]["args"]["nodes"],
            Json::array({"1: aten.mm(v1, v1) -> f32[4, 4]"}));
  EXPECT_EQ(steps[2]["name"], "fill");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(steps[i]["ts"], i);
}

}  // namespace
}  // namespace kiln
