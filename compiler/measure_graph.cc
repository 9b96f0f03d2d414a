#include "compiler/measure_graph.h"

#include <utility>
#include <vector>

#include "compiler/lower_request.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/tune/measure_call.h"
#include "compiler/tune/measure_flash.h"
#include "compiler/tune/measure_kernel.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<wire::TuningDecision> MeasureGraph(
    const wire::MeasureRequest& request, Toolchain& toolchain,
    Stopwatch& stopwatch) {
  std::vector<PassRecord> records;
  ASSIGN_OR_RETURN(LoweredRequest lowered,
                   LowerRequest(request.compile(), records));
  ASSIGN_OR_RETURN(const KernelPlan plan,
                   PlanNests(std::move(lowered.loops), lowered.env, records));
  const MeasureOptions options = {
      .choices = {request.choices().begin(), request.choices().end()},
      .repeats = static_cast<int>(request.repeats())};
  const Target& target = lowered.env.target;
  const LibraryCall* call = CallOfKey(plan, target, request.key());
  const FlashKernel* flash = FlashOfKey(plan, target, request.key());
  ASSIGN_OR_RETURN(
      const Measurement measured,
      call != nullptr
          ? MeasureCall(*call, plan, target, request.key(), options, stopwatch)
      : flash != nullptr ? MeasureFlash(*flash, plan, target, request.key(),
                                        options, toolchain, stopwatch)
                         : MeasureKernel(plan, lowered.env, request.key(),
                                         options, toolchain, stopwatch));
  wire::TuningDecision decision;
  decision.set_key(measured.key);
  decision.set_choice(measured.choice);
  for (const double seconds : measured.seconds) decision.add_seconds(seconds);
  for (const std::string& choice : measured.choices)
    decision.add_choices(choice);
  return decision;
}

}  // namespace kiln
