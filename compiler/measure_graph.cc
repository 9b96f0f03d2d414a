#include "compiler/measure_graph.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/config/tuning_table_from_wire.h"
#include "compiler/lower_request.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/tune/measure_call.h"
#include "compiler/tune/measure_flash.h"
#include "compiler/tune/measure_kernel.h"
#include "compiler/tune/measure_way.h"
#include "proto/base/status.h"
#include "proto/base/tuned_line.h"

namespace kiln {
namespace {

// A kernel or library call of the plan.
absl::StatusOr<Measurement> MeasureStep(
    const KernelPlan& plan, const PassEnv& env, absl::string_view key,
    const MeasureOptions& options, Toolchain& toolchain, Stopwatch& stopwatch) {
  const LibraryCall* call = CallOfKey(plan, env.target, key);
  if (call != nullptr)
    return MeasureCall(*call, plan, env.target, key, options, stopwatch);
  const FlashKernel* flash = FlashOfKey(plan, env.target, key);
  if (flash != nullptr) {
    return MeasureFlash(*flash, plan, env.target, key, options, toolchain,
                        stopwatch);
  }
  return MeasureKernel(plan, env, key, options, toolchain, stopwatch);
}

absl::StatusOr<Measurement> Measure(LoweredRequest lowered,
                                    absl::string_view key,
                                    const MeasureOptions& options,
                                    std::vector<PassRecord>& records,
                                    Toolchain& toolchain,
                                    Stopwatch& stopwatch) {
  if (absl::StartsWith(key, kWayKey)) {
    return MeasureWay(std::move(lowered.loops), lowered.env, key, options,
                      toolchain, stopwatch);
  }
  ASSIGN_OR_RETURN(const KernelPlan plan,
                   PlanNests(std::move(lowered.loops), lowered.env, records));
  return MeasureStep(plan, lowered.env, key, options, toolchain, stopwatch);
}

}  // namespace

absl::StatusOr<wire::TuningDecision> MeasureGraph(
    const wire::MeasureRequest& request, Toolchain& toolchain,
    Stopwatch& stopwatch) {
  std::vector<PassRecord> records;
  ASSIGN_OR_RETURN(LoweredRequest lowered,
                   LowerRequest(request.compile(), records));
  lowered.env.tuning = TuningTableFromWire(request.tuning());
  const MeasureOptions options = {
      .choices = {request.choices().begin(), request.choices().end()},
      .repeats = static_cast<int>(request.repeats())};
  ASSIGN_OR_RETURN(const Measurement measured,
                   Measure(std::move(lowered), request.key(), options, records,
                           toolchain, stopwatch));
  wire::TuningDecision decision;
  decision.set_key(measured.key);
  decision.set_choice(measured.choice);
  for (const double seconds : measured.seconds) decision.add_seconds(seconds);
  for (const std::string& choice : measured.choices)
    decision.add_choices(choice);
  return decision;
}

}  // namespace kiln
