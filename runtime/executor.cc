#include "runtime/executor.h"

#include <utility>

#include "proto/base/status.h"
#include "runtime/bind_launches.h"
#include "runtime/call_frame.h"
#include "runtime/check_inputs.h"
#include "runtime/run_steps.h"

namespace kiln {
namespace {

// The result tensor that `view` describes.
Tensor TensorOf(const PlanView& view, const Plan& plan, const CallFrame& frame,
                absl::Span<const InputView> inputs,
                const std::shared_ptr<const LoadedArtifact>& artifact) {
  Tensor tensor;
  tensor.dtype = view.dtype;
  for (const ExprId id : view.sizes) tensor.sizes.push_back(frame.values[id]);
  for (const ExprId id : view.strides) {
    tensor.strides.push_back(frame.values[id]);
  }
  tensor.device = artifact->device().traits().kind;
  tensor.device_ordinal = artifact->device().traits().ordinal;
  const int64_t offset = frame.values[view.offset];
  char* const base = frame.bases[view.buffer];
  tensor.data =
      base == nullptr ? nullptr : base + offset * SizeInBytes(view.dtype);
  tensor.storage_offset = offset;
  tensor.storage = base;
  const PlanBuffer& buffer = plan.buffers[view.buffer];
  if (buffer.kind == PlanBuffer::Kind::kInput) {
    const InputView& input = inputs[buffer.index];
    if (input.tensor != nullptr) {
      tensor.owner = input.tensor->owner;
      tensor.storage = input.tensor->storage;
    }
    tensor.storage_offset += input.number;
  } else if (buffer.kind == PlanBuffer::Kind::kOutput) {
    tensor.owner = frame.owners[view.buffer];
  } else {
    tensor.owner = std::const_pointer_cast<LoadedArtifact>(artifact);
  }
  return tensor;
}

std::vector<OutputValue> CollectOutputs(
    const Plan& plan, const CallFrame& frame,
    absl::Span<const InputView> inputs,
    const std::shared_ptr<const LoadedArtifact>& artifact) {
  std::vector<OutputValue> outputs;
  outputs.reserve(plan.outputs.size());
  for (const PlanOutput& output : plan.outputs) {
    if (const auto* view = std::get_if<PlanView>(&output)) {
      outputs.push_back(TensorOf(*view, plan, frame, inputs, artifact));
    } else if (const auto* integer = std::get_if<PlanInteger>(&output)) {
      outputs.push_back(frame.values[integer->value]);
    } else {
      outputs.push_back(std::monostate());
    }
  }
  return outputs;
}

}  // namespace

Executor::Executor(std::shared_ptr<const LoadedArtifact> artifact,
                   std::unique_ptr<const BoundPlan> plan)
    : artifact_(std::move(artifact)),
      plan_(std::move(plan)),
      frames_(std::make_unique<FramePool>(*plan_, artifact_->shared_device())) {
}

Executor::~Executor() = default;

absl::StatusOr<std::shared_ptr<const Executor>> Executor::Create(
    std::shared_ptr<const LoadedArtifact> artifact) {
  ASSIGN_OR_RETURN(BoundPlan plan, BindLaunches(*artifact));
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

absl::Status Executor::RunPlan(absl::Span<const InputView> inputs,
                               const RunOptions& options, Look look,
                               CallFrame& frame) const {
  const Plan& plan = *plan_->plan;
  if (look == Look::kAtInputs) RETURN_IF_ERROR(CheckKinds(plan, inputs));
  RETURN_IF_ERROR(BindSymbols(plan, inputs, absl::MakeSpan(frame.symbols)));
  if (look == Look::kAtInputs) {
    RETURN_IF_ERROR(CheckGuards(artifact_->view().guards(), frame.symbols));
  }
  EvaluateWave(*plan_, 0, frame);
  RETURN_IF_ERROR(look == Look::kAtInputs
                      ? CheckInputs(plan, inputs, frame.values)
                      : CheckAddresses(inputs));
  PlaceInputs(*plan_, inputs, frame);
  RETURN_IF_ERROR(PlaceWave(*plan_, 0, options, frame, *artifact_));
  RETURN_IF_ERROR(PlaceSeed(*plan_, options, frame));
  return RunSteps(*plan_, options, frame, *artifact_);
}

absl::StatusOr<std::vector<OutputValue>> Executor::RunOnFrame(
    absl::Span<const InputView> inputs, const RunOptions& options,
    Look look) const {
  const int64_t start = options.trace == nullptr ? 0 : Trace::Now();
  ASSIGN_OR_RETURN(std::unique_ptr<CallFrame> frame,
                   frames_->Borrow(options.stream));
  const absl::Status status = RunPlan(inputs, options, look, *frame);
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
