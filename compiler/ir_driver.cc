#include "compiler/ir_driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/cuda_flash.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/codegen/write_combined.h"
#include "compiler/codegen/write_kernels.h"
#include "compiler/compiler.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph/text_cursor.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/pass/graph_inspection.h"
#include "compiler/schedule/kernel_labels.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/flatten_program.h"
#include "compiler/schedule/plan_pipeline.h"
#include "proto/base/status.h"
#include "proto/plan/plan_text.h"

namespace kiln {
namespace {

// A word that leads from one level on.
struct Step {
  absl::string_view word;
  absl::StatusOr<Ir> (*run)(Ir ir, const PassEnv& env);
};

absl::Status WrongLevel(absl::string_view due) {
  return absl::InvalidArgumentError(
      absl::StrCat("found another level, expected a ", due));
}

template <typename Level>
absl::StatusOr<Level*> LevelOf(Ir& ir, absl::string_view due) {
  Level* level = std::get_if<Level>(&ir);
  if (level == nullptr) return WrongLevel(due);
  return level;
}
absl::StatusOr<Graph*> GraphOf(Ir& ir) { return LevelOf<Graph>(ir, "graph"); }
absl::StatusOr<LoopProgram*> LoopsOf(Ir& ir) {
  return LevelOf<LoopProgram>(ir, "loop program");
}
absl::StatusOr<KernelPlan*> PlanOf(Ir& ir) {
  return LevelOf<KernelPlan>(ir, "kernel plan");
}

absl::StatusOr<Ir> Lower(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(const Graph* graph, GraphOf(ir));
  ASSIGN_OR_RETURN(LoopProgram program,
                   LowerGraph(*graph, env.options.artifact));
  return Ir(std::move(program));
}

absl::StatusOr<Ir> Flatten(Ir ir, const PassEnv&) {
  ASSIGN_OR_RETURN(LoopProgram * program, LoopsOf(ir));
  return Ir(FlattenAddresses(std::move(*program)));
}

absl::StatusOr<Ir> Nests(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(LoopProgram * program, LoopsOf(ir));
  std::vector<PassRecord> records;
  ASSIGN_OR_RETURN(KernelPlan plan,
                   PlanNests(std::move(*program), env, records));
  return Ir(std::move(plan));
}

absl::StatusOr<Ir> ExplainTiling(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(const KernelPlan* plan, PlanOf(ir));
  ASSIGN_OR_RETURN(std::string text, ExplainVariants(*plan, env));
  return Ir(SourceText{std::move(text)});
}

absl::StatusOr<Ir> ExplainFused(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(LoopProgram * program, LoopsOf(ir));
  ASSIGN_OR_RETURN(std::string text, ExplainFusion(std::move(*program), env));
  return Ir(SourceText{std::move(text)});
}

absl::StatusOr<Ir> Plan(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(LoopProgram * program, LoopsOf(ir));
  ASSIGN_OR_RETURN(KernelPlan plan, PlanKernels(std::move(*program), env));
  RETURN_IF_ERROR(VerifyKernelPlan(plan));
  return Ir(std::move(plan));
}

// The rest of the road at once: a launch plan holds what is the graph's alone.
absl::StatusOr<Ir> Emit(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(const Graph* graph, GraphOf(ir));
  ASSIGN_OR_RETURN(LoopProgram program,
                   LowerGraph(*graph, env.options.artifact));
  std::vector<PassRecord> records;
  ASSIGN_OR_RETURN(const wire::CompilePlan compiled,
                   PlanLoops(*graph, std::move(program), env, records));
  return Ir(compiled.plan());
}

absl::StatusOr<Ir> Write(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(const KernelPlan* plan, PlanOf(ir));
  SourceText out;
  for (const PlannedStep& step : plan->steps) {
    if (!IsLaunch(step)) continue;
    const auto* all = std::get_if<CombinedKernel>(&step);
    const auto* flash = std::get_if<FlashKernel>(&step);
    const std::string& label = LabelOf(step);
    const auto write = [&](auto writer, const auto& kernel) {
      return writer(kernel, plan->buffers, plan->shapes, env.target);
    };
    absl::StatusOr<KernelSource> source =
        all != nullptr     ? write(WriteCombinedKernel, *all)
        : flash != nullptr ? write(WriteFlashKernel, *flash)
                           : write(WriteKernel, KernelsOf(step)[0]);
    if (!source.ok()) return Annotate(source.status(), label);
    absl::StrAppend(&out.text, "// ", label, "\n", source->text, "\n");
  }
  return Ir(std::move(out));
}

// The translation units as a toolchain is given them, each with its prelude.
absl::StatusOr<Ir> Units(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(const KernelPlan* plan, PlanOf(ir));
  ASSIGN_OR_RETURN(const std::vector<KernelSource> sources,
                   WriteKernels(*plan, env.target));
  SourceText out;
  for (const UnitSource& unit : GroupIntoUnits(sources, env.target)) {
    absl::StrAppend(&out.text, "// unit of ", absl::StrJoin(unit.symbols, ", "),
                    "\n", unit.source, "\n");
  }
  return Ir(std::move(out));
}

absl::StatusOr<Ir> ExplainContracted(Ir ir, const PassEnv& env) {
  ASSIGN_OR_RETURN(LoopProgram * program, LoopsOf(ir));
  ASSIGN_OR_RETURN(std::string text,
                   ExplainContractions(std::move(*program), env));
  return Ir(SourceText{std::move(text)});
}

constexpr Step kSteps[] = {{"lower_graph", Lower},
                           {"flatten_addresses", Flatten},
                           {"plan_nests", Nests},
                           {"plan_kernels", Plan},
                           {"explain_tiling", ExplainTiling},
                           {"explain_fusion", ExplainFused},
                           {"write_kernels", Write},
                           {"explain_contraction", ExplainContracted},
                           {"write_units", Units},
                           {"emit_plan", Emit}};

constexpr absl::string_view kWholePipeline = "graph_pipeline";

}  // namespace

absl::StatusOr<Ir> ParseIr(absl::string_view text) {
  TextCursor cursor(text);
  if (cursor.PeekWord() == "loops") {
    ASSIGN_OR_RETURN(LoopProgram program, ParseLoopProgram(text));
    RETURN_IF_ERROR(VerifyLoops(program));
    return Ir(std::move(program));
  }
  if (cursor.PeekWord() == "plan") {
    ASSIGN_OR_RETURN(KernelPlan plan, ParseKernelPlan(text));
    RETURN_IF_ERROR(VerifyKernelPlan(plan));
    return Ir(std::move(plan));
  }
  if (cursor.PeekWord() == "launch_plan") {
    ASSIGN_OR_RETURN(wire::LaunchPlan plan, ParsePlan(text));
    return Ir(std::move(plan));
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
  if (const auto* plan = std::get_if<wire::LaunchPlan>(&ir)) {
    return PlanText(*plan);
  }
  return std::get<SourceText>(ir).text;
}

// PassRecord.left.
static size_t SizeOf(const Ir& ir) {
  if (const auto* graph = std::get_if<Graph>(&ir)) return graph->nodes().size();
  if (const auto* program = std::get_if<LoopProgram>(&ir)) {
    return program->steps.size();
  }
  if (const auto* plan = std::get_if<KernelPlan>(&ir)) {
    return plan->steps.size();
  }
  if (const auto* plan = std::get_if<wire::LaunchPlan>(&ir)) {
    return static_cast<size_t>(plan->steps_size());
  }
  return 1;  // a source text
}

absl::Status RunWord(absl::string_view word, Ir& ir, const PassEnv& env,
                     std::vector<PassRecord>& records,
                     const PassRunOptions& options) {
  for (const Step& step : kSteps) {
    if (step.word != word) continue;
    StepClock clock(records);
    absl::StatusOr<Ir> next = step.run(std::move(ir), env);
    if (!next.ok()) return Annotate(next.status(), word);
    clock.Done(word, SizeOf(*next));
    ir = *std::move(next);
    if (env.options.diagnostic.dump_passes) records.back().dump = PrintIr(ir);
    return absl::OkStatus();
  }
  for (const Pass<LoopProgram>& pass : LoopPipeline()) {
    if (pass.name != word) continue;
    ASSIGN_OR_RETURN(LoopProgram * program, LoopsOf(ir));
    return RunPasses<LoopProgram>({pass}, *program, env, kLoopInspection,
                                  records, options);
  }
  for (const Pass<KernelPlan>& pass : KernelPipeline()) {
    if (pass.name != word) continue;
    ASSIGN_OR_RETURN(KernelPlan * plan, PlanOf(ir));
    return RunPasses<KernelPlan>({pass}, *plan, env, kPlanInspection, records,
                                 options);
  }
  std::vector<Pass<Graph>> passes;
  for (const Pass<Graph>& pass : GraphPipeline()) {
    // A pass that stands in the pipeline twice runs once when it is named.
    if (pass.name == word && passes.empty()) passes.push_back(pass);
  }
  if (passes.empty() && word != kWholePipeline) {
    return absl::InvalidArgumentError(
        absl::StrCat("pass ", word, ": not known; known are ",
                     absl::StrJoin(KnownWords(), ", ")));
  }
  Graph* graph = std::get_if<Graph>(&ir);
  if (graph == nullptr) return Annotate(WrongLevel("graph"), word);
  if (word == kWholePipeline) {
    return RunGraphPipeline(*graph, env, records, options);
  }
  return RunPasses<Graph>(passes, *graph, env, kGraphInspection, records,
                          options);
}

std::vector<std::string> GraphPassNames() {
  std::vector<std::string> names;
  for (const Pass<Graph>& pass : GraphPipeline()) {
    if (std::find(names.begin(), names.end(), pass.name) == names.end()) {
      names.push_back(std::string(pass.name));
    }
  }
  return names;
}

std::vector<std::string> KnownWords() {
  std::vector<std::string> words = GraphPassNames();
  words.push_back(std::string(kWholePipeline));
  for (const Pass<LoopProgram>& pass : LoopPipeline()) {
    if (std::find(words.begin(), words.end(), pass.name) == words.end())
      words.push_back(std::string(pass.name));
  }
  for (const Pass<KernelPlan>& pass : KernelPipeline()) {
    words.push_back(std::string(pass.name));
  }
  for (const Step& step : kSteps) words.push_back(std::string(step.word));
  return words;
}

}  // namespace kiln
