#ifndef KILN_CLIENT_CORPUS_RUNNER_RUN_CASE_H_
#define KILN_CLIENT_CORPUS_RUNNER_RUN_CASE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/corpus_runner/plan_figures.h"
#include "client/session.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {

enum class Verdict {
  kOk,             // ran, and all results are PyTorch's
  kCompiled,       // compiled, and nothing was asked or stored to compare
  kWrong,          // ran, and a result is not PyTorch's
  kUnimplemented,  // says so, and names the operator
  kFailed,         // anything else
};

// "ok", "compiled", "WRONG", "UNIMPLEMENTED", "FAILED".
absl::string_view VerdictWord(Verdict verdict);

// How one case went.
struct CaseResult {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string detail;  // worst output, or the error; one line
  // Worst error of any output, in units of its tolerance; above 1 is wrong.
  double worst_ratio = 0;
  double worst_error = 0;    // of the same element: |got - due|
  double worst_allowed = 0;  // and what it may be
  bool ran = false;
  CompileReport compile;
  absl::Duration first_run;
  absl::Duration run;  // the median of the later runs, or the only one
  std::optional<PlanFigures> figures;  // once it was compiled
};

// What to do with each case.
enum class CaseMode {
  kRun,          // compile, load, run, compare
  kCompileOnly,  // compile for the session's target
};

struct CaseOptions {
  CaseMode mode = CaseMode::kRun;
  // Where the graphs' tensors are put, whatever they were captured on.
  wire::DeviceType device = wire::DEVICE_TYPE_CPU;
  wire::CompileOptions compile;
  // Further runs to be timed, each on fresh copies of the inputs. More give a
  // steadier median; results are compared after the first alone.
  int repeats = 0;
  // Told what a case is about to do, in words for people. May be empty.
  std::function<void(const std::string& name, absl::string_view step)> on_step;
};

// Runs the cases of one file, in order. Cases that share a graph ("x" and
// "x@1") share one callable, and the second fails when it took another compile.
// Cases without data are compiled and not run: kCompiled at best. What a case
// expects of its compile (check_expect.h) is compared, and a difference is
// kFailed.
std::vector<CaseResult> RunCases(Session& session,
                                 std::vector<CorpusCase> cases,
                                 const CaseOptions& options);

// A line for people: verdict, name, detail.
std::string ResultLine(const CaseResult& result);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_RUN_CASE_H_
