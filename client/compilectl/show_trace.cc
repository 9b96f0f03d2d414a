#include "client/compilectl/show_trace.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/compilectl/answer.h"
#include "nlohmann/json.hpp"
#include "proto/base/sym_eval.h"
#include "proto/plan/plan_text.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCompile = 1, kPlan = 2;  // processes of the trace

Json NameOfProcess(int process, const std::string& name) {
  return {{"name", "process_name"},
          {"ph", "M"},
          {"pid", process},
          {"args", {{"name", name}}}};
}

Json NameOfRow(int process, uint32_t row, const std::string& name) {
  return {{"name", "thread_name"},
          {"ph", "M"},
          {"pid", process},
          {"tid", row},
          {"args", {{"name", name}}}};
}

void AddCompile(const wire::ShowReply& reply, Json& events) {
  events.push_back(NameOfProcess(
      kCompile, absl::StrCat("compile of ", reply.entry().graph_name())));
  uint32_t rows = 0;
  for (const wire::JobPhase& phase : reply.phases())
    rows = std::max(rows, phase.row());
  events.push_back(NameOfRow(kCompile, 0, "job"));
  for (uint32_t row = 1; row <= rows; ++row) {
    events.push_back(NameOfRow(kCompile, row, absl::StrCat("build ", row)));
  }
  for (const wire::JobPhase& phase : reply.phases()) {
    events.push_back({{"name", phase.name()},
                      {"cat", phase.category()},
                      {"ph", "X"},
                      {"ts", phase.start_us()},
                      {"dur", phase.duration_us()},
                      {"pid", kCompile},
                      {"tid", phase.row()}});
  }
}

// "3: aten.add.Tensor(v0, v1) -> f32[4, 4] strides [4, 1]", or the number alone
// where the graph's text is lost.
template <typename Step>
Json NodesOf(const Step& step, const wire::ShowReply& reply) {
  Json nodes = Json::array();
  for (const uint32_t node : step.client_nodes()) {
    const bool known = node < static_cast<uint32_t>(reply.nodes_size());
    nodes.push_back(
        known ? absl::StrCat(node, ": ", reply.nodes(static_cast<int>(node)))
              : absl::StrCat(node));
  }
  return nodes;
}

Json KernelEvent(const wire::LaunchStep& launch, const wire::ShowReply& reply) {
  const wire::LaunchPlan& plan = reply.artifact().compiled().plan();
  if (launch.kernel() >= static_cast<uint32_t>(plan.kernels_size())) {
    return {{"name", "launch"}, {"cat", "kernel"}};
  }
  const wire::PlanKernel& kernel =
      plan.kernels(static_cast<int>(launch.kernel()));
  Json operators = Json::array();
  for (const std::string& origin : kernel.origins())
    operators.push_back(origin);
  return {{"name", kernel.label()},
          {"cat", "kernel"},
          {"args",
           {{"operators", std::move(operators)},
            {"nodes", NodesOf(launch, reply)},
            {"symbol", kernel.symbol()},
            {"mapping", kernel.mapping()},
            {"bytes_read", SymExprText(kernel.bytes_read())},
            {"bytes_written", SymExprText(kernel.bytes_written())}}}};
}

Json EventOf(const wire::PlanStep& step, const wire::ShowReply& reply) {
  switch (step.kind_case()) {
    case wire::PlanStep::kLaunch:
      return KernelEvent(step.launch(), reply);
    case wire::PlanStep::kExternCall:
      return {{"name", step.extern_call().name()},
              {"cat", "extern"},
              {"args", {{"nodes", NodesOf(step.extern_call(), reply)}}}};
    case wire::PlanStep::kCopy:
      return {{"name", "copy"}, {"cat", "copy"}};
    case wire::PlanStep::kFill:
      return {{"name", "fill"}, {"cat", "fill"}};
    case wire::PlanStep::kAssertion:
      return {{"name", "assert"}, {"cat", "assert"}};
    case wire::PlanStep::kBindSymbol:
      return {{"name", "bind"}, {"cat", "bind"}};
    case wire::PlanStep::kHostCall:
      return {{"name", step.host_call().op()}, {"cat", "host"}};
    case wire::PlanStep::kRegion:
      return {{"name", step.region().kind()}, {"cat", "region"}};
    case wire::PlanStep::KIND_NOT_SET:
      break;
  }
  return {{"name", "nothing"}, {"cat", "nothing"}};
}

void AddPlan(const wire::ShowReply& reply, Json& events) {
  events.push_back(
      NameOfProcess(kPlan, "plan: its steps in order, without times"));
  int64_t moment = 0;
  for (const wire::PlanStep& step :
       reply.artifact().compiled().plan().steps()) {
    Json event = EventOf(step, reply);
    event["args"]["step"] = StepText(step);
    event["ph"] = "X";
    event["ts"] = moment++;
    event["dur"] = 1;
    event["pid"] = kPlan;
    event["tid"] = 0;
    events.push_back(std::move(event));
  }
}

}  // namespace

std::string ShowTrace(const wire::ShowReply& reply) {
  const wire::Entry& entry = reply.entry();
  Json events = Json::array();
  AddCompile(reply, events);
  AddPlan(reply, events);
  return JsonText({{"otherData",
                    {{"key", LongKey(entry.compile_key())},
                     {"namespace", entry.cache_namespace()},
                     {"graph", entry.graph_name()},
                     {"target", entry.target()}}},
                   {"displayTimeUnit", "ms"},
                   {"traceEvents", std::move(events)}});
}

}  // namespace kiln
