#include "runtime/collect_outputs.h"

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

}  // namespace

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

}  // namespace kiln
