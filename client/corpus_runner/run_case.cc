#include "client/corpus_runner/run_case.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/corpus_runner/check_expect.h"
#include "client/corpus_runner/device_tensors.h"
#include "client/corpus_runner/retarget_graph.h"
#include "client/large_constants.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/corpus/corpus_compare.h"
#include "proto/key/canonical_graph.h"

namespace kiln {
namespace {

// What running a graph left behind, on the host.
struct RunOutcome {
  std::vector<OutputValue> outputs;
  std::vector<InputValue> inputs;
};

CaseResult Refused(CaseResult result, const absl::Status& status) {
  result.verdict = absl::IsUnimplemented(status) ? Verdict::kUnimplemented
                                                 : Verdict::kFailed;
  result.detail = absl::IsUnimplemented(status)
                      ? std::string(status.message())
                      : absl::StrCat(absl::StatusCodeToString(status.code()),
                                     ": ", status.message());
  return result;
}

// Keeps the worst of all comparisons, and the first difference in words.
class Verdicts {
 public:
  explicit Verdicts(CaseResult& result) : result_(result) {}

  void Add(const std::string& what, const Comparison& comparison) {
    if (!comparison.equal) Differ(what, comparison.difference);
    if (comparison.ratio < result_.worst_ratio) return;
    result_.worst_ratio = comparison.ratio;
    result_.worst_error = comparison.error;
    result_.worst_allowed = comparison.allowed;
    if (comparison.equal && comparison.ratio > 0) worst_ = what;
  }

  void Differ(const std::string& what, absl::string_view difference) {
    ++wrong_;
    if (result_.verdict == Verdict::kWrong) return;
    result_.verdict = Verdict::kWrong;
    result_.detail = absl::StrCat(what, ": ", difference);
  }

  void Finish(int count) {
    if (result_.verdict == Verdict::kWrong) {
      if (wrong_ > 1)
        absl::StrAppend(&result_.detail, " (and ", wrong_ - 1,
                        " more outputs)");
      return;
    }
    result_.detail =
        worst_.empty()
            ? absl::StrCat(count, " outputs, exact")
            : absl::StrFormat("%d outputs, worst %.2g of tolerance at %s",
                              count, result_.worst_ratio, worst_);
  }

 private:
  CaseResult& result_;
  std::string worst_;
  int wrong_ = 0;
};

absl::Status CompareTensor(Device& device, const std::string& what,
                           const Tensor& got, const CorpusTensor& due,
                           Tolerance tolerance, Verdicts& verdicts) {
  ASSIGN_OR_RETURN(const HostCopy copy, CopyToHost(device, got));
  verdicts.Add(
      what, CompareTensors({copy.layout, copy.storage.data()}, due, tolerance));
  return absl::OkStatus();
}

absl::Status CompareOutputs(Device& device, const CorpusCase& expected,
                            const std::vector<OutputValue>& got,
                            Verdicts& verdicts) {
  if (got.size() != expected.outputs.size()) {
    verdicts.Differ("outputs", absl::StrCat("found ", got.size(), ", expected ",
                                            expected.outputs.size()));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string what = absl::StrCat("output ", i);
    const CorpusValue& due = expected.outputs[i];
    if (got[i].index() != (std::holds_alternative<CorpusTensor>(due) ? 1
                           : std::holds_alternative<int64_t>(due)    ? 2
                                                                     : 0)) {
      verdicts.Differ(what, "a result of another kind");
    } else if (const auto* tensor = std::get_if<CorpusTensor>(&due)) {
      RETURN_IF_ERROR(CompareTensor(device, what, std::get<Tensor>(got[i]),
                                    *tensor, expected.output_tolerance[i],
                                    verdicts));
    } else if (const auto* integer = std::get_if<int64_t>(&due)) {
      if (std::get<int64_t>(got[i]) != *integer) {
        verdicts.Differ(what, absl::StrCat(std::get<int64_t>(got[i]),
                                           ", expected ", *integer));
      }
    }
  }
  return absl::OkStatus();
}

// Mutated inputs must be what PyTorch left in them, the others untouched.
absl::Status CompareInputs(Device& device, const CorpusCase& expected,
                           const std::vector<InputValue>& inputs,
                           Verdicts& verdicts) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&inputs[i]);
    if (tensor == nullptr) continue;
    const auto mutated = expected.mutated.find(static_cast<int>(i));
    const std::string what = absl::StrCat("input ", i);
    if (mutated != expected.mutated.end()) {
      RETURN_IF_ERROR(CompareTensor(
          device, what, *tensor, mutated->second,
          expected.mutated_tolerance.at(static_cast<int>(i)), verdicts));
      continue;
    }
    ASSIGN_OR_RETURN(const HostCopy after, CopyToHost(device, *tensor));
    const auto& before = std::get<CorpusTensor>(expected.inputs[i]);
    if (!after.storage.empty() &&
        std::memcmp(after.storage.data(), before.data(),
                    after.storage.size()) != 0) {
      verdicts.Differ(what, "was written to");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RunOutcome> RunOnce(Session& session, Callable& callable,
                                   const CorpusCase& test_case,
                                   CaseResult& result) {
  Device& device = *session.device().device;
  RunOutcome outcome;
  for (const CorpusValue& input : test_case.inputs) {
    if (const auto* tensor = std::get_if<CorpusTensor>(&input)) {
      ASSIGN_OR_RETURN(Tensor copy, CopyToDevice(device, *tensor));
      outcome.inputs.emplace_back(std::move(copy));
    } else if (const auto* integer = std::get_if<int64_t>(&input)) {
      outcome.inputs.emplace_back(*integer);
    } else {
      return MakeError(ErrorReason::kUnsupportedOp, "input that is None");
    }
  }
  const SteadyTime start = SteadyNow();
  ASSIGN_OR_RETURN(outcome.outputs, callable.Run(outcome.inputs));
  RETURN_IF_ERROR(device.Synchronize(nullptr));
  result.run = Since(start);
  result.ran = true;
  return outcome;
}

// Runs `repeats` times more; result.run becomes the median of these.
absl::Status TimeRuns(Session& session, Callable& callable,
                      const CorpusCase& test_case, int repeats,
                      CaseResult& result) {
  std::vector<absl::Duration> runs;
  for (int i = 0; i < repeats; ++i) {
    RETURN_IF_ERROR(RunOnce(session, callable, test_case, result).status());
    runs.push_back(result.run);
  }
  if (runs.empty()) return absl::OkStatus();
  std::sort(runs.begin(), runs.end());
  result.run = runs[runs.size() / 2];
  return absl::OkStatus();
}

CaseResult RunAndCompare(Session& session, Callable& callable,
                         const CorpusCase& test_case, int repeats,
                         CaseResult result) {
  const int compiles_before = callable.compiles();
  const absl::StatusOr<RunOutcome> outcome =
      RunOnce(session, callable, test_case, result);
  if (!outcome.ok()) return Refused(std::move(result), outcome.status());
  result.first_run = result.run;
  Device& device = *session.device().device;
  Verdicts verdicts(result);
  absl::Status compared =
      CompareOutputs(device, test_case, outcome->outputs, verdicts);
  if (compared.ok()) {
    compared = CompareInputs(device, test_case, outcome->inputs, verdicts);
  }
  if (compared.ok()) {
    compared = TimeRuns(session, callable, test_case, repeats, result);
  }
  if (!compared.ok()) return Refused(std::move(result), compared);
  verdicts.Finish(static_cast<int>(test_case.outputs.size()));
  if (callable.compiles() != compiles_before &&
      result.verdict == Verdict::kOk) {
    result.verdict = Verdict::kFailed;
    result.detail =
        "expected one artifact for all sizes, and this case needed another";
  }
  return result;
}

// One graph of a file: compiled once, whatever sizes its cases have.
struct CompiledGraph {
  absl::Status status;
  CompileReport report;
  std::optional<PlanFigures> figures;
  std::vector<std::string> differences;  // from what its first case expects
  std::shared_ptr<Callable> callable;    // null with kCompileOnly
};

// The figures at the sizes the graph was captured with.
PlanFigures FiguresAtHints(const wire::Artifact& artifact,
                           const wire::Graph& graph) {
  // The plan's symbols are the canonical graph's: in order of appearance, which
  // is the order in which corpus graphs declare them.
  std::vector<int64_t> hints;
  std::vector<int64_t> classes;
  for (const wire::Symbol& symbol : graph.symbols()) {
    hints.push_back(symbol.hint());
    classes.push_back(HintClass(symbol.hint(), symbol.min(), symbol.max()));
  }
  const size_t count =
      std::max<size_t>(hints.size(), artifact.compiled().plan().symbols_size());
  hints.resize(count);
  classes.resize(count);
  return FiguresOf(artifact, hints, classes);
}

// Takes what is counted and expected of an artifact.
void LookAt(const wire::Artifact& artifact, const CorpusCase& test_case,
            CompiledGraph& out) {
  out.figures = FiguresAtHints(artifact, test_case.graph);
  out.differences = ExpectDifferences(test_case.expect, artifact, *out.figures);
}

CompiledGraph CompileGraph(Session& session, const CorpusCase& test_case,
                           wire::CompileOptions options, bool load) {
  CompiledGraph out;
  const wire::Graph& graph = test_case.graph;
  out.status = ApplyExpectedOptions(test_case.expect, options);
  if (!out.status.ok()) return out;
  if (load) {
    absl::StatusOr<std::shared_ptr<Callable>> callable =
        session.Compile(graph, options);
    out.status = callable.status();
    if (callable.ok()) {
      out.callable = *std::move(callable);
      out.report = out.callable->report();
      LookAt(out.callable->executor()->artifact().view().message(), test_case,
             out);
    }
    return out;
  }
  const absl::StatusOr<wire::CompileRequest> request =
      session.RequestFor(graph, options);
  out.status = request.status();
  if (!request.ok()) return out;
  const absl::StatusOr<CompileOutcome> answer =
      session.CompileOnly(*request, out.report);
  out.status = answer.status();
  wire::Artifact artifact;
  if (answer.ok() && artifact.ParseFromString(answer->artifact.artifact())) {
    LookAt(artifact, test_case, out);
  }
  return out;
}

// Results that differ say more than figures do, and stand first.
void FailOn(const std::vector<std::string>& differences, CaseResult& result) {
  if (differences.empty()) return;
  const std::string words = absl::StrCat("expected of its compile: ",
                                         absl::StrJoin(differences, "; "));
  const bool passed =
      result.verdict == Verdict::kOk || result.verdict == Verdict::kCompiled;
  result.detail = passed ? words : absl::StrCat(result.detail, "; ", words);
  if (passed) result.verdict = Verdict::kFailed;
}

}  // namespace

absl::string_view VerdictWord(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kCompiled:
      return "compiled";
    case Verdict::kWrong:
      return "WRONG";
    case Verdict::kUnimplemented:
      return "UNIMPLEMENTED";
    case Verdict::kFailed:
      return "FAILED";
  }
  return "FAILED";
}

std::vector<CaseResult> RunCases(Session& session,
                                 std::vector<CorpusCase> cases,
                                 const CaseOptions& options) {
  std::vector<CaseResult> results;
  std::map<std::string, CompiledGraph> compiled;
  for (CorpusCase& test_case : cases) {
    CaseResult result;
    result.name = test_case.name;
    if (!test_case.readable.ok()) {
      results.push_back(Refused(std::move(result), test_case.readable));
      continue;
    }
    RetargetGraph(test_case.graph, options.device);
    const std::string base = BaseName(test_case);
    const bool load = options.mode == CaseMode::kRun && test_case.has_data;
    const auto say = [&](absl::string_view step) {
      if (options.on_step) options.on_step(test_case.name, step);
    };
    if (compiled.find(base) == compiled.end()) {
      say("asking for its kernels");
      compiled[base] = CompileGraph(session, test_case, options.compile, load);
    }
    const CompiledGraph& graph = compiled[base];
    result.compile = graph.report;
    result.figures = graph.figures;
    if (!graph.status.ok()) {
      results.push_back(Refused(std::move(result), graph.status));
    } else if (graph.callable == nullptr) {
      result.verdict = Verdict::kCompiled;
      result.detail = absl::StrCat(
          "in ", absl::ToInt64Milliseconds(graph.report.compile), " ms");
      results.push_back(std::move(result));
    } else {
      say("running on the inputs");
      results.push_back(RunAndCompare(session, *graph.callable, test_case,
                                      options.repeats, std::move(result)));
    }
    if (graph.status.ok()) FailOn(graph.differences, results.back());
  }
  return results;
}

std::string ResultLine(const CaseResult& result) {
  // A message may quote a compiler over several lines; a case has one.
  return absl::StrFormat("%-13s  %-36s  %s", VerdictWord(result.verdict),
                         result.name,
                         absl::StrReplaceAll(result.detail, {{"\n", " | "}}));
}

}  // namespace kiln
