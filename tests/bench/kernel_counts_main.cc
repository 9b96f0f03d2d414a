// Counts what plans launch, a corpus case a line, beside Inductor's counts:
//
//   kernel_counts_main [--target sm_90] [--reference FILE] [--run] [--text]
//                      [--explain] [--loops] [--time] PATH...
//
// --explain says what shares no kernel, and why. --time adds the processor time of
// each stage. --run interprets each plan and compares with PyTorch's results; the
// exit code is 1 where one is wrong or refused.

#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "compiler/graph/graph_import.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/metrics.h"
#include "compiler/schedule/plan_pipeline.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"
#include "tests/compiler/reference/corpus_on_reference.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

struct Arguments {
  std::string target = "sm_90";
  std::string reference;
  bool run = false, text = false, explain = false, loops = false;
  bool time = false;
  std::vector<std::string> paths;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--target" && i + 1 < argc) {
      arguments.target = argv[++i];
    } else if (word == "--reference" && i + 1 < argc) {
      arguments.reference = argv[++i];
    } else if (word == "--run") {
      arguments.run = true;
    } else if (word == "--text") {
      arguments.text = true;
    } else if (word == "--explain") {
      arguments.explain = true;
    } else if (word == "--loops") {
      arguments.loops = true;
    } else if (word == "--time") {
      arguments.time = true;
    } else {
      arguments.paths.push_back(word);
    }
  }
  return arguments;
}

// The number after `"key": ` behind `"name"`, or -1: the reference file is one
// flat object a case.
int Reference(const std::string& json, const std::string& name,
              const std::string& key) {
  const size_t at = json.find("\"" + name + "\"");
  if (at == std::string::npos) return -1;
  const size_t field = json.find("\"" + key + "\":", at);
  if (field == std::string::npos) return -1;
  return std::atoi(json.c_str() + field + key.size() + 3);
}

struct Totals {
  int64_t launches = 0, inductor = 0, externs = 0, inductor_externs = 0;
  int wrong = 0;
};

double Milliseconds(std::clock_t since) {
  return 1000.0 * static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
}

absl::StatusOr<std::string> CountCase(const CorpusCase& c,
                                      const Arguments& arguments,
                                      const std::string& reference,
                                      Totals& totals) {
  RETURN_IF_ERROR(c.readable);
  const auto t0 = std::clock();
  ASSIGN_OR_RETURN(Graph graph, ImportGraph(c.graph));
  ASSIGN_OR_RETURN(const Target target, TargetFromName(arguments.target));
  if (target.kind == TargetKind::kCuda) graph.device = DeviceType::kCuda;
  std::vector<PassRecord> records;
  RETURN_IF_ERROR(
      RunGraphPipeline(graph, PassEnv{target, CompileOptions()}, records));
  const double passes = Milliseconds(t0);
  const auto t1 = std::clock();
  ASSIGN_OR_RETURN(LoopProgram program, LowerGraph(graph));
  const double lower = Milliseconds(t1);
  if (arguments.loops) std::printf("%s", ToText(program).c_str());
  if (arguments.run) RETURN_IF_ERROR(VerifyLoops(program));
  const LoopProgram copy = program;
  const auto t2 = std::clock();
  ASSIGN_OR_RETURN(const KernelPlan plan,
                   PlanKernels(std::move(program), PassEnv{target, {}}));
  const double planning = Milliseconds(t2);
  if (arguments.text) std::printf("%s", ToText(plan).c_str());
  if (arguments.explain) {
    ASSIGN_OR_RETURN(const std::string text,
                     ExplainFusion(copy, PassEnv{target, {}}));
    std::printf("%s", text.c_str());
  }
  const LaunchCounts counts = CountLaunches(plan);
  const int inductor = Reference(reference, c.name, "kernels");
  const int inductor_externs = Reference(reference, c.name, "extern_calls");
  if (inductor >= 0) {
    totals.launches += counts.launches();
    totals.inductor += inductor;
    totals.externs += counts.externs;
    totals.inductor_externs += inductor_externs;
  }
  const double arena =
      static_cast<double>(plan.shapes.Hint(plan.arena_bytes)) /
      static_cast<double>(std::max<int64_t>(1, plan.peak_live_bytes));
  char line[400];
  std::snprintf(line, sizeof(line),
                "launches %3ld (%3d)%s externs %3ld (%3d) fills %ld bytes %ld "
                "arena %.2f",
                static_cast<long>(counts.launches()), inductor,
                inductor >= 0 && counts.launches() > inductor ? " MORE" : "",
                static_cast<long>(counts.externs), inductor_externs,
                static_cast<long>(counts.fills),
                static_cast<long>(counts.bytes), arena);
  std::string out = line;
  if (arguments.time) {
    std::snprintf(line, sizeof(line),
                  " passes %.1f lower %.1f plan %.1f ms, %zu nodes", passes,
                  lower, planning, graph.nodes().size());
    out += line;
  }
  if (arguments.run) RETURN_IF_ERROR(VerifyKernelPlan(plan));
  if (arguments.run && c.has_data) {
    const auto got = RunPlan(plan, graph.constants, ReferenceInputs(c.inputs));
    RETURN_IF_ERROR(got.status());
    const CaseVerdict verdict = CompareWithCase(c, *got);
    if (verdict.outcome != CaseVerdict::Outcome::kEqual) {
      ++totals.wrong;
      out += " WRONG " + verdict.detail;
    }
  }
  return out;
}

int Main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  std::string reference;
  if (!arguments.reference.empty()) {
    std::ifstream file(arguments.reference);
    std::stringstream text;
    text << file.rdbuf();
    reference = text.str();
  }
  Totals totals;
  for (const std::string& path : arguments.paths) {
    const auto files = ListCorpusFiles(path);
    if (!files.ok()) {
      std::fprintf(stderr, "%s\n", files.status().ToString().c_str());
      return 1;
    }
    for (const std::string& file : *files) {
      const auto cases = ReadCorpusFile(file);
      if (!cases.ok()) {
        std::fprintf(stderr, "%s\n", cases.status().ToString().c_str());
        return 1;
      }
      for (const CorpusCase& c : *cases) {
        const auto line = CountCase(c, arguments, reference, totals);
        if (!line.ok()) ++totals.wrong;
        std::printf(
            "%-40s %s\n", c.name.c_str(),
            line.ok() ? line->c_str() : line.status().ToString().c_str());
        std::fflush(stdout);
      }
    }
  }
  std::printf(
      "total launches %ld, Inductor %ld; externs %ld, Inductor %ld; "
      "wrong or refused %d\n",
      static_cast<long>(totals.launches), static_cast<long>(totals.inductor),
      static_cast<long>(totals.externs),
      static_cast<long>(totals.inductor_externs), totals.wrong);
  return arguments.run && totals.wrong > 0 ? 1 : 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }
