#include "tests/compiler/schedule/plan_check.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/reference/run_reference.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/plan_pipeline.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {

std::vector<RefValue> RandomInputs(const Graph& graph) {
  std::mt19937 random(7);
  std::vector<RefValue> inputs;
  for (const GraphInput& input : graph.inputs) {
    const auto* v = std::get_if<ValueId>(&input.what);
    if (v == nullptr) {
      inputs.push_back(graph.shapes.Hint(std::get<SymExpr>(input.what)));
      continue;
    }
    const TensorMeta& m = graph.meta(*v);
    Sizes sizes, strides;
    for (const SymExpr& e : m.sizes) sizes.push_back(graph.shapes.Hint(e));
    for (const SymExpr& e : m.strides) strides.push_back(graph.shapes.Hint(e));
    RefTensor tensor = RefTensor::Zeros(m.dtype, sizes, strides);
    Elements values =
        IsFloat(m.dtype) ? Elements::Floats(sizes) : Elements::Ints(sizes);
    for (int64_t k = 0; k < values.count(); ++k) {
      if (values.floating) {
        values.f[k] = RoundTo(
            m.dtype, std::uniform_real_distribution<double>(-2, 2)(random));
      } else {
        values.i[k] = static_cast<int64_t>(random() % 2);
      }
    }
    Store(values, tensor);
    inputs.push_back(tensor);
  }
  return inputs;
}

// What is due of every element, relative to 1 + its size.
//
// f32: a sum of n terms in another order is off by at most n * 2^-24 of the sum
// of their sizes, and our functions by 2 ulp: 1e-4 is that of 200 terms of a
// few units. With halves anywhere: the reference rounds after each operator, a
// kernel at stores alone; each rounding is 2^-9 of the value, and five in a row
// are 1e-2, which a difference of two values may double.
double ToleranceOf(const Graph& graph) {
  for (uint32_t v = 0; v < graph.num_values(); ++v) {
    if (IsHalf(graph.meta(ValueId{v}).dtype)) return 2e-2;
  }
  return 1e-4;
}

void ExpectClose(const RefValue& got, const RefValue& due, double tolerance,
                 const std::string& where) {
  const auto* a = std::get_if<RefTensor>(&got);
  const auto* b = std::get_if<RefTensor>(&due);
  ASSERT_EQ(a == nullptr, b == nullptr) << where;
  if (a == nullptr) return;
  ASSERT_EQ(a->sizes, b->sizes) << where;
  ASSERT_EQ(a->dtype, b->dtype) << where;
  for (size_t d = 0; d < a->sizes.size(); ++d) {
    if (a->sizes[d] > 1) {
      EXPECT_EQ(a->strides[d], b->strides[d]) << where;
    }
  }
  const Elements x = Load(*a), y = Load(*b);
  for (int64_t k = 0; k < x.count(); ++k) {
    if (std::isnan(x.F(k)) && std::isnan(y.F(k))) continue;
    if (x.F(k) == y.F(k)) continue;
    ASSERT_LE(std::fabs(x.F(k) - y.F(k)), tolerance * (1 + std::fabs(y.F(k))))
        << where << " element " << k;
  }
}

namespace {

void ExpectSame(const absl::StatusOr<RefOutcome>& got, const RefOutcome& due,
                double tolerance, const std::string& how,
                const std::string& text) {
  ASSERT_TRUE(got.ok()) << how << ": " << got.status() << "\n" << text;
  for (size_t k = 0; k < due.outputs.size(); ++k) {
    ExpectClose(got->outputs[k], due.outputs[k], tolerance,
                how + " output " + std::to_string(k) + "\n" + text);
  }
  for (size_t k = 0; k < due.inputs.size(); ++k) {
    ExpectClose(got->inputs[k], due.inputs[k], tolerance,
                how + " input " + std::to_string(k) + "\n" + text);
  }
}

}  // namespace

KernelPlan PlanOf(absl::string_view graph_text, absl::string_view target) {
  const auto graph = ParseGraph(graph_text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const auto program = LowerGraph(*graph);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  const auto plan = PlanKernels(*program, PassEnv{*TargetFromName(target), {}});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : KernelPlan();
}

namespace {

absl::StatusOr<LoopProgram> LoopsOf(absl::string_view graph_text,
                                    const PassEnv& env) {
  ASSIGN_OR_RETURN(Graph graph, ParseGraph(graph_text));
  std::vector<PassRecord> records;
  RETURN_IF_ERROR(RunGraphPipeline(graph, env, records));
  return LowerGraph(graph, env.options.artifact);
}

}  // namespace

KernelPlan PlanWith(absl::string_view graph_text, const PassEnv& env) {
  auto program = LoopsOf(graph_text, env);
  EXPECT_TRUE(program.ok()) << program.status() << graph_text;
  if (!program.ok()) return {};
  const auto plan = PlanKernels(*std::move(program), env);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : KernelPlan();
}

KernelPlan NestsWith(absl::string_view graph_text, const PassEnv& env) {
  auto program = LoopsOf(graph_text, env);
  EXPECT_TRUE(program.ok()) << program.status() << graph_text;
  if (!program.ok()) return {};
  std::vector<PassRecord> records;
  const auto plan = PlanNests(*std::move(program), env, records);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : KernelPlan();
}

void ExpectMeansTheSame(absl::string_view graph_text) {
  const auto graph = ParseGraph(graph_text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<RefValue> inputs = RandomInputs(*graph);
  const auto due = RunReference(*graph, inputs);
  ASSERT_TRUE(due.ok()) << due.status();
  const double tolerance = ToleranceOf(*graph);
  Graph lowerable = *graph;
  PassEnv env;
  env.options.diagnostic.verify_passes = true;
  std::vector<PassRecord> records;
  ASSERT_EQ(RunGraphPipeline(lowerable, env, records), absl::OkStatus());
  const auto program = LowerGraph(lowerable, {});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(VerifyLoops(*program), absl::OkStatus()) << ToText(*program);
  ExpectSame(RunLoops(*program, lowerable.constants, inputs), *due, tolerance,
             "loops", ToText(*program));
  for (const char* target : {"sm_90", "x86-64-v3"}) {
    // 0: no fusion. A few loops put producers back to their places.
    for (const int most_loops : {0, 3, 64}) {
      PassEnv on{*TargetFromName(target), {}};
      on.options.artifact.no_fusion = most_loops == 0;
      on.options.artifact.max_fusion_size = std::max(1, most_loops);
      const auto plan = PlanKernels(*program, on);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(VerifyKernelPlan(*plan), absl::OkStatus()) << ToText(*plan);
      ExpectSame(RunPlan(*plan, lowerable.constants, inputs), *due, tolerance,
                 absl::StrCat("kernels of ", most_loops, " loops"),
                 ToText(*plan));
    }
  }
}

int NumKernels(const KernelPlan& plan) {
  int kernels = 0;
  for (const PlannedStep& step : plan.steps) {
    kernels += IsLaunch(step);
  }
  return kernels;
}

}  // namespace kiln
