#include "client/corpus_runner/retarget_graph.h"

namespace kiln {
namespace {

void Retarget(wire::Argument& argument, wire::DeviceType device) {
  if (argument.kind_case() == wire::Argument::kDevice) {
    argument.set_device(device);
  }
  if (argument.kind_case() != wire::Argument::kList) return;
  for (wire::Argument& item : *argument.mutable_list()->mutable_items()) {
    Retarget(item, device);
  }
}

}  // namespace

void RetargetGraph(wire::Graph& graph, wire::DeviceType device) {
  for (wire::Input& input : *graph.mutable_inputs()) {
    if (input.has_tensor()) input.mutable_tensor()->set_device(device);
  }
  for (wire::Constant& constant : *graph.mutable_constants()) {
    constant.mutable_tensor()->set_device(device);
  }
  for (wire::Node& node : *graph.mutable_nodes()) {
    for (wire::Argument& argument : *node.mutable_args()) {
      Retarget(argument, device);
    }
    for (wire::NamedArgument& argument : *node.mutable_kwargs()) {
      Retarget(*argument.mutable_value(), device);
    }
    for (wire::TensorMeta& result : *node.mutable_results()) {
      if (result.device() != device) result.Clear();
    }
  }
}

}  // namespace kiln
