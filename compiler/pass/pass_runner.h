#ifndef KILN_COMPILER_PASS_PASS_RUNNER_H_
#define KILN_COMPILER_PASS_PASS_RUNNER_H_

// Runs the passes of a pipeline over an IR and gives each the same service: it
// is timed, skipped when asked, its text is kept when asked, and the verifier
// runs after it. The order of passes is the pipeline's business.
//
// A pass is a function with a promise; it reads its PassEnv and nothing else:
// no clock, environment, file or random source, and it keeps nothing between
// runs.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "compiler/config/compile_options.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "proto/base/status.h"

namespace kiln {

// What a pass did: nothing, something, or so many patterns replaced, each of
// several operators that it looks for.
class Changed {
 public:
  static const Changed kNo, kYes;
  static constexpr Changed Patterns(int64_t patterns) {
    return Changed(patterns > 0, patterns);
  }

  constexpr bool any() const { return any_; }
  constexpr int64_t patterns() const { return patterns_; }

 private:
  constexpr Changed(bool any, int64_t patterns)
      : any_(any), patterns_(patterns) {}

  bool any_;
  int64_t patterns_;
};

inline constexpr Changed Changed::kNo = Changed(false, 0);
inline constexpr Changed Changed::kYes = Changed(true, 0);

// All that a pass may hang a decision on.
struct PassEnv {
  Target target;
  CompileOptions options;
  TuningTable tuning = {};  // decisions in force for the target
};

template <typename Ir>
struct Pass {
  absl::string_view name;  // also its file, its dump and its --skip word
  absl::StatusOr<Changed> (*run)(Ir& ir, const PassEnv& env);
};

// What a pass or a step took and left.
struct PassRecord {
  std::string name;
  // What it left: nodes of a graph, steps of a program or plan. A function of
  // what it was given, so an artifact may have it as a counter.
  int64_t left = 0;
  int64_t patterns = 0;  // Changed::patterns(), of a pass that looks for some
  // Never part of an artifact.
  absl::Duration duration;
  std::string dump;  // the text after it, when asked for and it changed
};

// How the runner looks at an IR.
template <typename Ir>
struct IrInspection {
  std::string (*print)(const Ir& ir);
  absl::Status (*verify)(const Ir& ir);
  int64_t (*size)(const Ir& ir);  // PassRecord.left
};

// Times steps that follow one another.
//
//   StepClock steps(records);
//   ...; steps.Done("lower_graph", loops.steps.size());
//   ...; steps.Done("plan_kernels", plan.steps.size());
class StepClock {
 public:
  explicit StepClock(std::vector<PassRecord>& records) : records_(records) {}
  // Time from here on counts for the next step.
  void Restart() { start_ = std::chrono::steady_clock::now(); }
  void Done(absl::string_view name, size_t left) {
    const auto now = std::chrono::steady_clock::now();
    records_.push_back({std::string(name), static_cast<int64_t>(left), 0,
                        absl::FromChrono(now - start_), ""});
    start_ = now;
  }

 private:
  std::vector<PassRecord>& records_;
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

struct PassRunOptions {
  std::vector<std::string> skip;  // names of passes that are left out
  // A pass that says kNo must leave the text as it was. Prints twice a pass.
  bool check_changed = false;
};

// Runs `passes` in order over `ir` and appends a record for each that ran.
//
// Errors: the pass's own, with its name in front; INTERNAL
// "after fold_constants: G2 at ..." where it broke an invariant and
// verify_passes is set.
template <typename Ir>
absl::Status RunPasses(absl::Span<const Pass<Ir>> passes, Ir& ir,
                       const PassEnv& env, const IrInspection<Ir>& inspection,
                       std::vector<PassRecord>& records,
                       const PassRunOptions& options = {}) {
  const DiagnosticOptions& diagnostic = env.options.diagnostic;
  for (const Pass<Ir>& pass : passes) {
    if (std::find(options.skip.begin(), options.skip.end(), pass.name) !=
        options.skip.end()) {
      continue;
    }
    const std::string before =
        options.check_changed ? inspection.print(ir) : std::string();
    StepClock clock(records);
    const absl::StatusOr<Changed> changed = pass.run(ir, env);
    if (!changed.ok()) return Annotate(changed.status(), pass.name);
    clock.Done(pass.name, static_cast<size_t>(inspection.size(ir)));
    records.back().patterns = changed->patterns();
    if (options.check_changed && !changed->any() &&
        inspection.print(ir) != before) {
      return absl::InternalError(
          absl::StrCat("after ", pass.name, ": it says that nothing changed"));
    }
    if (diagnostic.dump_passes && changed->any()) {
      records.back().dump = inspection.print(ir);
    }
    if (diagnostic.verify_passes && changed->any()) {
      RETURN_IF_ERROR(
          Annotate(inspection.verify(ir), absl::StrCat("after ", pass.name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln

#endif  // KILN_COMPILER_PASS_PASS_RUNNER_H_
