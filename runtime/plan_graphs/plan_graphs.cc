#include "runtime/plan_graphs/plan_graphs.h"

#include <utility>
#include <variant>

#include "proto/artifact.pb.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// What a recording is for: all that a plan's symbols may be bound to. Of each input
// its number and its rank, -1 of an integer; of a tensor then sizes and strides.
std::vector<int64_t> KeyOf(const PlanCall& call) {
  std::vector<int64_t> key;
  call.ForEachView([&key](const InputView& view) {
    key.insert(key.end(), {view.number, view.is_tensor ? view.rank : -1});
    if (!view.is_tensor) return true;
    key.insert(key.end(), view.sizes, view.sizes + view.rank);
    key.insert(key.end(), view.strides, view.strides + view.rank);
    return true;
  });
  return key;
}

bool HasKey(const PlanCall& call, const std::vector<int64_t>& key) {
  const int64_t* at = key.data();
  const int64_t* const end = at + key.size();
  return call.ForEachView([&](const InputView& view) {
    const int64_t rank = view.is_tensor ? view.rank : -1;
    const int64_t dims = view.is_tensor ? rank : 0;
    if (end - at < 2 + 2 * dims) return false;
    if (at[0] != view.number || at[1] != rank) return false;
    at += 2;
    for (int64_t d = 0; d < dims; ++d) {
      if (at[d] != view.sizes[d] || at[dims + d] != view.strides[d])
        return false;
    }
    at += 2 * dims;
    return true;
  }) && at == end;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanGraphs>> PlanGraphs::Make(
    std::shared_ptr<Device> device, std::shared_ptr<CachingAllocator> memory,
    const graph_tree::FunctionOptions& options) {
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
      graphs->generations_, "graphs");
  graphs->options_ = options;
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

int PlanGraphs::FunctionFor(Plan& plan, const PlanCall& call) {
  if (plan.last_key != nullptr && HasKey(call, *plan.last_key))
    return plan.last_function;
  const auto [at, is_new] = plan.functions.emplace(KeyOf(call), 0);
  if (is_new) {
    graph_tree::Function function;
    function.static_inputs = plan.static_inputs;
    function.mutated_inputs = plan.mutated_inputs;
    for (void* constant : plan.executor->artifact().constants()) {
      function.constants.push_back({nullptr, constant});
    }
    function.body = &plan.body;
    function.options = options_;
    at->second = tree_->AddFunction(std::move(function));
  }
  plan.last_key = &at->first;
  return plan.last_function = at->second;
}

absl::Status PlanGraphs::CheckValid(PlanCall& call) const {
  if (!memory_->HasInvalid()) return absl::OkStatus();
  recorder_->TakeViews(call);
  for (const InputValue& input : call.inputs) {
    const auto* const tensor = std::get_if<Tensor>(&input);
    if (tensor != nullptr) RETURN_IF_ERROR(memory_->CheckValid(*tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OutputValue>> PlanGraphs::Run(
    int plan, std::vector<InputValue> inputs, const CallOptions& options) {
  PlanCall call;
  call.inputs = std::move(inputs);
  call.seed = options.seed;
  call.stream = options.stream;
  return Run(plan, call);
}

absl::StatusOr<std::vector<OutputValue>> PlanGraphs::RunViews(
    int plan, absl::Span<const InputView> inputs, const CallOptions& options) {
  PlanCall call;
  call.views = inputs;
  call.seed = options.seed;
  call.stream = options.stream;
  return Run(plan, call);
}

absl::StatusOr<std::vector<OutputValue>> PlanGraphs::Run(int plan,
                                                         PlanCall& from) {
  RETURN_IF_ERROR(CheckValid(from));
  const int function = FunctionFor(*plans_[plan], from);
  graph_tree::Call call;
  call.caller = &from;
  call.inputs = std::move(room_);
  call.inputs.resize(from.size());
  graph_tree::Input* to = call.inputs.data();
  from.ForEachView([&to](const InputView& view) {
    *to++ = {.is_tensor = view.is_tensor,
             .address = view.is_tensor ? view.data : nullptr};
    return true;
  });
  RETURN_IF_ERROR(recorder_->order().Begin(from.stream));
  const absl::Status status = tree_->Run(function, call);
  room_ = std::move(call.inputs);
  const absl::Status ended = recorder_->order().End(from.stream);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(ended);
  return std::move(from.results);
}

}  // namespace kiln
