#include "runtime/executor.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/bind_launches.h"
#include "runtime/call_frame.h"
#include "runtime/check_inputs.h"
#include "runtime/collect_outputs.h"
#include "runtime/run_steps.h"

namespace kiln {
Executor::Executor(std::shared_ptr<const LoadedArtifact> artifact,
                   std::unique_ptr<const BoundPlan> plan)
    : artifact_(std::move(artifact)),
      plan_(std::move(plan)),
      frames_(std::make_unique<FramePool>(*plan_, artifact_->shared_device())) {
}

Executor::~Executor() = default;

absl::StatusOr<std::shared_ptr<const Executor>> Executor::Create(
    std::shared_ptr<const LoadedArtifact> artifact,
    absl::Span<const InputValue> fixed) {
  const size_t inputs = artifact->view().plan().inputs.size();
  if (fixed.size() > inputs) {
    return MakeError(
        ErrorReason::kArtifactIncompatible,
        absl::StrCat("launch plan: ", inputs, " inputs, expected the ",
                     fixed.size(), " fixed ones among them"));
  }
  ASSIGN_OR_RETURN(BoundPlan plan, BindLaunches(*artifact, ViewsOf(fixed)));
  return std::shared_ptr<const Executor>(new Executor(
      std::move(artifact), std::make_unique<const BoundPlan>(std::move(plan))));
}

absl::StatusOr<std::vector<OutputValue>> Executor::Run(
    absl::Span<const InputValue> inputs, const RunOptions& options) const {
  RETURN_IF_ERROR(CheckPlaces(inputs, artifact_->device().traits()));
  return RunOnFrame(ViewsOf(inputs), options, Look::kAtInputs);
}

absl::StatusOr<std::vector<OutputValue>> Executor::RunGuarded(
    absl::Span<const InputView> inputs, const RunOptions& options) const {
  return RunOnFrame(inputs, options, Look::kNoMore);
}

std::vector<std::string> Executor::LibraryCalls() const {
  std::vector<std::string> lines;
  for (const BoundStep& step : plan_->steps) {
    const auto* call = std::get_if<BoundExtern>(&step);
    if (call == nullptr) continue;
    for (std::string& line : call->site->Descriptions())
      lines.push_back(std::move(line));
  }
  return lines;
}

absl::Status Executor::Check(absl::Span<const InputValue> inputs) const {
  RETURN_IF_ERROR(CheckPlaces(inputs, artifact_->device().traits()));
  CallFrame frame(*plan_, artifact_->shared_device());
  return Bind(ViewsOf(inputs), Look::kAtInputs, frame);
}

absl::Status Executor::Bind(absl::Span<const InputView> inputs, Look look,
                            CallFrame& frame) const {
  const Plan& plan = *plan_->plan;
  if (look == Look::kAtInputs) RETURN_IF_ERROR(CheckKinds(plan, inputs));
  RETURN_IF_ERROR(BindSymbols(plan, inputs, absl::MakeSpan(frame.symbols)));
  if (look == Look::kAtInputs) {
    RETURN_IF_ERROR(CheckGuards(artifact_->view().guards(), frame.symbols));
  }
  EvaluateWave(*plan_, 0, frame);
  return look == Look::kAtInputs ? CheckInputs(plan, inputs, frame.values)
                                 : CheckAddresses(inputs);
}

absl::Status Executor::Settle(absl::Span<const InputView> inputs,
                              const RunOptions& options, Look look,
                              CallFrame& frame) const {
  RETURN_IF_ERROR(Bind(inputs, look, frame));
  PlaceInputs(*plan_, inputs, frame);
  RETURN_IF_ERROR(PlaceWave(*plan_, 0, options, frame, *artifact_));
  return PlaceSeed(*plan_, options, frame);
}

absl::StatusOr<std::vector<OutputValue>> Executor::RunOnFrame(
    absl::Span<const InputView> inputs, const RunOptions& options,
    Look look) const {
  const int64_t start = options.trace == nullptr ? 0 : Trace::Now();
  ASSIGN_OR_RETURN(const CurrentDevice current,
                   artifact_->device().MakeCurrent());
  ASSIGN_OR_RETURN(std::unique_ptr<CallFrame> frame,
                   frames_->Borrow(options.stream));
  absl::Status status = Settle(inputs, options, look, *frame);
  if (status.ok()) status = RunSteps(*plan_, options, *frame, *artifact_);
  if (!status.ok()) {
    frames_->Return(std::move(frame), options.stream);
    return status;
  }
  std::vector<OutputValue> outputs =
      CollectOutputs(*plan_->plan, *frame, inputs, artifact_);
  frames_->Return(std::move(frame), options.stream);
  if (options.trace != nullptr) options.trace->Add("run", "run", start);
  return outputs;
}

}  // namespace kiln
