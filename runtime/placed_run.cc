#include "runtime/placed_run.h"

#include <variant>

#include "proto/base/status.h"
#include "runtime/call_frame.h"
#include "runtime/collect_outputs.h"
#include "runtime/run_steps.h"

namespace kiln {

PlacedRun::PlacedRun(std::shared_ptr<const Executor> executor,
                     const RunOptions& options)
    : executor_(std::move(executor)),
      options_{.stream = options.stream, .allocator = options.allocator},
      frame_(std::make_unique<CallFrame>(
          *executor_->plan_, executor_->artifact().shared_device())) {
  frame_->stream = options.stream;
}

PlacedRun::~PlacedRun() = default;

absl::StatusOr<std::unique_ptr<PlacedRun>> PlacedRun::Place(
    std::shared_ptr<const Executor> executor,
    absl::Span<const InputView> inputs, const RunOptions& options) {
  if (executor->artifact().device().IsCaptured(options.stream)) {
    return absl::FailedPreconditionError(
        "placing a run: its stream is captured already");
  }
  std::unique_ptr<PlacedRun> run(new PlacedRun(std::move(executor), options));
  const Executor& of = *run->executor_;
  CallFrame& frame = *run->frame_;
  RETURN_IF_ERROR(of.Settle(inputs, options, Executor::Look::kAtInputs, frame));
  RETURN_IF_ERROR(PlaceSteps(*of.plan_, options, frame, of.artifact()));
  run->outputs_ = CollectOutputs(*of.plan_->plan, frame, inputs, of.artifact_);
  for (const MemoryEvent& take : of.plan_->memory.takes) {
    frame.owners[take.subject].reset();
  }
  frame.ReturnLent(options.stream);
  return run;
}

absl::Status PlacedRun::Put() {
  return PutSteps(*executor_->plan_, options_, *frame_, executor_->artifact());
}

void* PlacedRun::seed_slot() const {
  const BoundPlan& plan = *executor_->plan_;
  return plan.reads_seed_slot ? frame_->bases[plan.seed_slot()] : nullptr;
}

std::vector<std::string> PlacedRun::KernelNames() const {
  std::vector<std::string> names;
  for (const BoundStep& step : executor_->plan_->steps) {
    if (const auto* launch = std::get_if<BoundLaunch>(&step))
      names.emplace_back(launch->label);
  }
  return names;
}

}  // namespace kiln
