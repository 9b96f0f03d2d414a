#include "compiler/ir_driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph/text_cursor.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/inline_producers.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/pass/graph_inspection.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/plan_pipeline.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// A word that leads from one level on.
struct Step {
  absl::string_view word;
  absl::StatusOr<Ir> (*run)(Ir ir, const PassEnv& env);
};

absl::Status WrongLevel(absl::string_view due) {
  return absl::InvalidArgumentError(
      absl::StrCat("found another level, due a ", due));
}

absl::StatusOr<Ir> Lower(Ir ir, const PassEnv&) {
  const Graph* graph = std::get_if<Graph>(&ir);
  if (graph == nullptr) return WrongLevel("graph");
  ASSIGN_OR_RETURN(LoopProgram program, LowerGraph(*graph));
  return Ir(std::move(program));
}

absl::StatusOr<Ir> Inline(Ir ir, const PassEnv& env) {
  LoopProgram* program = std::get_if<LoopProgram>(&ir);
  if (program == nullptr) return WrongLevel("loop program");
  InlineProducers(*program, env.target, InlineLimits{});
  return ir;
}

absl::StatusOr<Ir> Plan(Ir ir, const PassEnv& env) {
  LoopProgram* program = std::get_if<LoopProgram>(&ir);
  if (program == nullptr) return WrongLevel("loop program");
  const ArtifactOptions& artifact = env.options.artifact;
  ScheduleOptions options;
  options.max_fusion_size = artifact.max_fusion_size;
  options.no_fusion = artifact.no_fusion;
  options.persistent_max_row = artifact.persistent_max_row;
  ASSIGN_OR_RETURN(KernelPlan plan,
                   PlanKernels(std::move(*program), env.target, options));
  return Ir(std::move(plan));
}

absl::StatusOr<Ir> Write(Ir ir, const PassEnv& env) {
  const KernelPlan* plan = std::get_if<KernelPlan>(&ir);
  if (plan == nullptr) return WrongLevel("kernel plan");
  SourceText out;
  for (const PlannedStep& step : plan->steps) {
    const PlannedKernel* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    absl::StatusOr<KernelSource> source =
        WriteKernel(*kernel, plan->buffers, plan->shapes, env.target);
    if (!source.ok()) return Annotate(source.status(), kernel->label);
    absl::StrAppend(&out.text, "// ", kernel->label, "\n", source->text, "\n");
  }
  return Ir(std::move(out));
}

constexpr Step kSteps[] = {{"lower_graph", Lower},
                           {"inline_producers", Inline},
                           {"plan_kernels", Plan},
                           {"write_kernels", Write}};

constexpr absl::string_view kWholePipeline = "graph_pipeline";

}  // namespace

absl::StatusOr<Ir> ParseIr(absl::string_view text) {
  TextCursor cursor(text);
  if (cursor.PeekWord() == "loops") {
    ASSIGN_OR_RETURN(LoopProgram program, ParseLoopProgram(cursor.rest()));
    RETURN_IF_ERROR(VerifyLoops(program));
    return Ir(std::move(program));
  }
  ASSIGN_OR_RETURN(Graph graph, ParseGraph(text));
  RETURN_IF_ERROR(VerifyGraph(graph));
  return Ir(std::move(graph));
}

std::string PrintIr(const Ir& ir) {
  if (const Graph* graph = std::get_if<Graph>(&ir)) return PrintGraph(*graph);
  if (const auto* program = std::get_if<LoopProgram>(&ir)) {
    return ToText(*program);
  }
  if (const auto* plan = std::get_if<KernelPlan>(&ir)) return ToText(*plan);
  return std::get<SourceText>(ir).text;
}

absl::Status RunWord(absl::string_view word, Ir& ir, const PassEnv& env,
                     std::vector<PassRecord>& records,
                     const PassRunOptions& options) {
  for (const Step& step : kSteps) {
    if (step.word != word) continue;
    StepClock clock(records);
    absl::StatusOr<Ir> next = step.run(std::move(ir), env);
    if (!next.ok()) return Annotate(next.status(), word);
    clock.Done(word);
    ir = *std::move(next);
    if (env.options.diagnostic.dump_passes) records.back().dump = PrintIr(ir);
    return absl::OkStatus();
  }
  std::vector<Pass<Graph>> passes;
  for (const Pass<Graph>& pass : GraphPipeline()) {
    // A pass that stands in the pipeline twice runs once when it is named.
    const bool again = word != kWholePipeline && !passes.empty();
    if ((pass.name == word || word == kWholePipeline) && !again) {
      passes.push_back(pass);
    }
  }
  if (passes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pass ", word, ": not known; known are ",
                     absl::StrJoin(KnownWords(), ", ")));
  }
  Graph* graph = std::get_if<Graph>(&ir);
  if (graph == nullptr) return Annotate(WrongLevel("graph"), word);
  return RunPasses<Graph>(passes, *graph, env, kGraphInspection, records,
                          options);
}

std::vector<std::string> KnownWords() {
  std::vector<std::string> words;
  for (const Pass<Graph>& pass : GraphPipeline()) {
    if (std::find(words.begin(), words.end(), pass.name) == words.end()) {
      words.push_back(std::string(pass.name));
    }
  }
  words.push_back(std::string(kWholePipeline));
  for (const Step& step : kSteps) words.push_back(std::string(step.word));
  return words;
}

}  // namespace kiln
