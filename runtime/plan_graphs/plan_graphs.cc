#include "runtime/plan_graphs/plan_graphs.h"

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// What a recording is for: all that a plan's symbols may be bound to.
std::vector<int64_t> KeyOf(const std::vector<InputValue>& inputs) {
  std::vector<int64_t> key;
  for (const InputValue& input : inputs) {
    if (const auto* number = std::get_if<int64_t>(&input)) {
      key.push_back(*number);
      continue;
    }
    const Tensor& tensor = std::get<Tensor>(input);
    key.push_back(static_cast<int64_t>(tensor.sizes.size()));
    key.push_back(tensor.storage_offset);
    key.insert(key.end(), tensor.sizes.begin(), tensor.sizes.end());
    key.insert(key.end(), tensor.strides.begin(), tensor.strides.end());
  }
  return key;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanGraphs>> PlanGraphs::Make(
    std::shared_ptr<Device> device, std::shared_ptr<CachingAllocator> memory,
    graph_tree::TreeOptions options) {
  if (device->traits().kind == DeviceKind::kCpu) {
    return absl::UnimplementedError("cpu: its work is not captured");
  }
  std::unique_ptr<PlanGraphs> graphs(new PlanGraphs());
  graphs->memory_ = std::make_unique<GraphMemory>(std::move(memory));
  ASSIGN_OR_RETURN(graphs->recorder_,
                   PlanRecorder::Make(std::move(device), *graphs->memory_));
  graphs->tree_ = std::make_unique<graph_tree::GraphTree>(
      graph_tree::Surroundings{graphs->recorder_.get(), graphs->memory_.get(),
                               graphs->memory_.get()},
      graphs->generations_, std::move(options));
  return graphs;
}

PlanGraphs::~PlanGraphs() {
  if (tree_ == nullptr) return;
  IgnoreBecause(tree_->RestorePool(), "nobody is left to be told");
}

int PlanGraphs::Add(std::shared_ptr<const Executor> executor,
                    std::vector<int> static_inputs) {
  auto plan = std::make_unique<Plan>();
  const wire::LaunchPlan& wire =
      executor->artifact().view().message().compiled().plan();
  for (int i = 0; i < wire.inputs_size(); ++i) {
    if (wire.inputs(i).mutated()) plan->mutated_inputs.push_back(i);
  }
  plan->executor = executor;
  plan->body.executor = std::move(executor);
  plan->static_inputs = std::move(static_inputs);
  plans_.push_back(std::move(plan));
  return static_cast<int>(plans_.size()) - 1;
}

int PlanGraphs::FunctionFor(Plan& plan, const std::vector<InputValue>& inputs) {
  const auto [at, is_new] = plan.functions.emplace(KeyOf(inputs), 0);
  if (!is_new) return at->second;
  graph_tree::Function function;
  function.static_inputs = plan.static_inputs;
  function.mutated_inputs = plan.mutated_inputs;
  for (void* constant : plan.executor->artifact().constants()) {
    function.constants.push_back({nullptr, constant});
  }
  function.body = &plan.body;
  return at->second = tree_->AddFunction(std::move(function));
}

absl::StatusOr<std::vector<OutputValue>> PlanGraphs::Run(
    int plan, std::vector<InputValue> inputs, const CallOptions& options) {
  for (const InputValue& input : inputs) {
    const auto* const tensor = std::get_if<Tensor>(&input);
    if (tensor != nullptr) RETURN_IF_ERROR(memory_->CheckValid(*tensor));
  }
  const int function = FunctionFor(*plans_[plan], inputs);
  PlanCall caller;
  caller.inputs = std::move(inputs);
  caller.seed = options.seed;
  caller.stream = options.stream;
  graph_tree::Call call = CallOf(caller, *memory_);
  RETURN_IF_ERROR(tree_->Run(function, call));
  return std::move(caller.results);
}

}  // namespace kiln
