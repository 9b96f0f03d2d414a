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
  kCompiled,       // compiled; no run was asked for, or no results are stored
  kWrong,          // ran, and a result is not PyTorch's
  kUnimplemented,  // refused as unimplemented; the detail names the operator
  kFailed,         // anything else
};

// "ok", "compiled", "WRONG", "UNIMPLEMENTED", "FAILED".
absl::string_view VerdictWord(Verdict verdict);

// How one case went.
struct CaseResult {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string detail;  // worst output, or the error; one line
  // The largest error of any output, in units of its tolerance; above 1 is wrong.
  double worst_ratio = 0;
  double worst_error = 0;    // of the same element: |got - expected|
  double worst_allowed = 0;  // its tolerance
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
  // The device that the graphs' tensors are moved to.
  wire::DeviceType device = wire::DEVICE_TYPE_CPU;
  wire::CompileOptions compile;
  // How many further runs are timed, each on new copies of the inputs. Results are
  // compared only after the first run.
  int repeats = 0;
  // Called with a description of what a case does next. May be empty.
  std::function<void(const std::string& name, absl::string_view step)> on_step;
};

// Runs the cases of one file, in order. Cases that share a graph ("x" and "x@1") share
// one callable; the second fails if it needs another compile. Cases without data are
// only compiled, which gives kCompiled at best. A difference from what a case expects of
// its compile (check_expect.h) is kFailed.
std::vector<CaseResult> RunCases(Session& session,
                                 std::vector<CorpusCase> cases,
                                 const CaseOptions& options);

// The result in one line of text: verdict, name, detail.
std::string ResultLine(const CaseResult& result);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_RUN_CASE_H_
