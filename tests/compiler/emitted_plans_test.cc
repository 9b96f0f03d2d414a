// What the compiler emits for the models that Kiln promises keeps the rules of
// every level, and every level's text reads back.

#include <string>
#include <vector>

#include "compiler/compiler.h"
#include "compiler/graph/graph_import.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/plan_pipeline.h"
#include "gtest/gtest.h"
#include "proto/corpus/corpus_case.h"
#include "proto/key/request_digest.h"
#include "proto/plan/plan_text.h"
#include "proto/plan/plan_verifier.h"

namespace kiln {
namespace {

constexpr const char* kModels[] = {"mlp_layernorm_train",
                                   "mlp_batchnorm_train",
                                   "mlp_dynamic_train",
                                   "bert_train",
                                   "linear_cross_entropy_train",
                                   "gpt2_train",
                                   "gpt2_dynamic_infer",
                                   "llama_train",
                                   "vit_train",
                                   "resnet_infer",
                                   "resnet_train"};

void ExpectLevelsReadBack(const wire::Graph& wire, const Target& target) {
  auto graph = ImportGraph(wire);
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<PassRecord> records;
  ASSERT_EQ(RunGraphPipeline(*graph, PassEnv{target, {}}, records),
            absl::OkStatus());
  auto loops = LowerGraph(*graph, {});
  ASSERT_TRUE(loops.ok()) << loops.status();
  const std::string loops_text = ToText(*loops);
  const auto loops_again = ParseLoopProgram(loops_text);
  ASSERT_TRUE(loops_again.ok()) << loops_again.status();
  EXPECT_TRUE(ToText(*loops_again) == loops_text) << "loops";
  const auto plan = PlanKernels(*std::move(loops), PassEnv{target, {}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string plan_text = ToText(*plan);
  const auto plan_again = ParseKernelPlan(plan_text);
  ASSERT_TRUE(plan_again.ok()) << plan_again.status();
  EXPECT_TRUE(ToText(*plan_again) == plan_text) << "kernel plan";
}

void ExpectSoundPlan(wire::CompileRequest request) {
  request.mutable_options()->mutable_diagnostic()->set_verify_passes(true);
  auto canonical = CanonicalizeRequest(request);
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  wire::PlanRequest work;
  *work.mutable_compile() = std::move(canonical->request);
  const auto compiled = CompileGraph(work);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const wire::CompilePlan& plan = compiled->plan;
  EXPECT_EQ(VerifyLaunchPlan(plan, plan.units_size()), absl::OkStatus());
  const auto again = ParsePlan(PlanText(plan.plan()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->SerializeAsString() == plan.plan().SerializeAsString());
}

class EmittedPlans : public testing::TestWithParam<const char*> {};

TEST_P(EmittedPlans, KeepTheirRulesAndReadBack) {
  const auto cases = ReadCorpusFile(std::string("tests/corpus/models/") +
                                    GetParam() + ".jsonl");
  ASSERT_TRUE(cases.ok()) << cases.status();
  for (const CorpusCase& test_case : *cases) {
    SCOPED_TRACE(test_case.name);
    wire::CompileRequest request;
    *request.mutable_graph() = test_case.graph;
    request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
    ExpectSoundPlan(request);
    ExpectLevelsReadBack(test_case.graph, *TargetFromName("x86-64-v3"));
    request.mutable_target()->mutable_cuda()->set_arch("sm_90");
    ExpectSoundPlan(request);
    ExpectLevelsReadBack(test_case.graph, *TargetFromName("sm_90"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EmittedPlans, testing::ValuesIn(kModels));

}  // namespace
}  // namespace kiln
