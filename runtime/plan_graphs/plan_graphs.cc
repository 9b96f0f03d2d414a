#include "runtime/plan_graphs/plan_graphs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"
#include "runtime/check_inputs.h"

namespace kiln {
namespace {

constexpr char kManySizes[] =
    "a device graph is recorded for each size of a plan's inputs, and this one "
    "has met ";
constexpr char kManySizesEnd[] =
    " of them: pad inputs to fewer sizes, or name those that get graphs "
    "(capture_sizes)";

constexpr char kUnlistedSize[] =
    "no device graph of sizes that capture_sizes does not list";

graph_tree::FunctionOptions OptionsOf(const GraphOptions& given) {
  return {.rerecord_limit = given.rerecord_limit,
          .mutation_of_managed_inputs = given.mutation_of_results,
          .check_pool = given.check_pool,
          .skip_is_error = given.skip_is_error};
}

PlanCall CallOf(const PlanGraphs::CallOptions& options) {
  PlanCall call;
  call.seed = options.seed;
  call.stream = options.stream;
  call.trace = options.trace;
  call.nodes = options.nodes;
  return call;
}

// Whether all tensors have an address.
bool FillIn(const PlanCall& from, std::vector<graph_tree::Input>& inputs) {
  inputs.resize(from.size());
  graph_tree::Input* to = inputs.data();
  bool all = true;
  from.ForEachView([&](const InputView& view) {
    const void* const address = view.is_tensor ? view.data : nullptr;
    all &= address != nullptr || !view.is_tensor;
    *to++ = {.is_tensor = view.is_tensor, .address = address};
    return true;
  });
  return all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanGraphs>> PlanGraphs::Make(
    std::shared_ptr<Device> device, std::shared_ptr<CachingAllocator> memory,
    GraphOptions options) {
  if (device->traits().kind == DeviceKind::kCpu) {
    return absl::UnimplementedError("cpu: its work is not captured");
  }
  std::unique_ptr<PlanGraphs> graphs(new PlanGraphs());
  graphs->memory_ = std::make_unique<GraphMemory>(std::move(memory));
  graphs->device_ = device;
  ASSIGN_OR_RETURN(graphs->recorder_,
                   PlanRecorder::Make(std::move(device), *graphs->memory_));
  graphs->tree_ = std::make_unique<graph_tree::GraphTree>(
      graph_tree::Surroundings{graphs->recorder_.get(), graphs->memory_.get(),
                               graphs->memory_.get()},
      graphs->generations_, "graphs");
  graphs->options_ = std::move(options);
  return graphs;
}

int PlanGraphs::Add(std::shared_ptr<const Executor> executor,
                    std::vector<int> static_inputs) {
  const wire::LaunchPlan& wire =
      executor->artifact().view().message().compiled().plan();
  auto plan = std::make_unique<Plan>(CallKey(wire));
  for (int i = 0; i < wire.inputs_size(); ++i) {
    if (wire.inputs(i).mutated()) plan->mutated_inputs.push_back(i);
  }
  plan->body.number = static_cast<int>(plans_.size());
  plan->body.executor = std::move(executor);
  for (int i = 0; i < wire.inputs_size(); ++i) {
    plan->body.reads_offset.push_back(plan->key.ReadsOffset(i));
  }
  plan->static_inputs = std::move(static_inputs);
  plans_.push_back(std::move(plan));
  return static_cast<int>(plans_.size()) - 1;
}

void PlanGraphs::Remove(int plan) {
  for (const auto& [key, function] : plans_[plan]->functions) {
    tree_->RemoveFunction(function);
  }
  plans_[plan].reset();
}

absl::Status PlanGraphs::LimitSizes(Plan& plan, const PlanCall& call,
                                    int function) {
  if (!plan.key.has_symbols()) return absl::OkStatus();
  if (options_.skip_dynamic) {
    return tree_->GoWithoutGraph(
        function, "skipping cudagraphs due to dynamic shape ops");
  }
  const auto& sizes = options_.capture_sizes;
  if (!sizes.empty() &&
      std::find(sizes.begin(), sizes.end(), plan.key.Of(call)) == sizes.end()) {
    if (!std::exchange(plan.told_of_unlisted, true)) {
      tree_->Tell(
          {graph_tree::TreeNote::Kind::kWarning, function, kUnlistedSize});
    }
    return tree_->GoWithoutGraph(function, "");
  }
  if (++plan.sizes == options_.sizes_warn_limit + 1 && plan.sizes > 1) {
    tree_->Tell({graph_tree::TreeNote::Kind::kWarning, function,
                 absl::StrCat(kManySizes, plan.sizes, kManySizesEnd)});
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PlanGraphs::FunctionFor(Plan& plan, const PlanCall& call) {
  if (plan.last_key != nullptr && plan.key.IsOf(call, *plan.last_key)) {
    return plan.last_function;
  }
  const auto [at, is_new] = plan.functions.emplace(plan.key.Of(call), 0);
  plan.last_key = &at->first;
  if (is_new) {
    graph_tree::Function function;
    function.static_inputs = plan.static_inputs;
    function.mutated_inputs = plan.mutated_inputs;
    for (void* constant : plan.body.executor->artifact().constants()) {
      function.constants.push_back({nullptr, constant});
    }
    function.body = &plan.body;
    function.options = OptionsOf(options_);
    at->second = tree_->AddFunction(std::move(function));
    plan.last_function = at->second;
    RETURN_IF_ERROR(LimitSizes(plan, call, at->second));
  }
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
  RETURN_IF_ERROR(plans_[plan]->body.executor->Check(inputs));
  PlanCall call = CallOf(options);
  call.inputs = std::move(inputs);
  return Run(plan, call);
}

absl::StatusOr<std::vector<OutputValue>> PlanGraphs::RunViews(
    int plan, absl::Span<const InputView> inputs, const CallOptions& options) {
  PlanCall call = CallOf(options);
  call.views = inputs;
  return Run(plan, call);
}

absl::StatusOr<std::vector<OutputValue>> PlanGraphs::Run(int plan,
                                                         PlanCall& from) {
  graph_tree::Call call;
  call.caller = &from;
  call.inputs = std::move(room_);
  const bool has_addresses = FillIn(from, call.inputs);
  if (!has_addresses) RETURN_IF_ERROR(CheckAddresses(from.views));
  RETURN_IF_ERROR(CheckValid(from));
  ASSIGN_OR_RETURN(const int function, FunctionFor(*plans_[plan], from));
  ASSIGN_OR_RETURN(const CurrentDevice current, device_->MakeCurrent());
  RETURN_IF_ERROR(recorder_->order().Begin(from.stream));
  const absl::Status status = tree_->Run(function, call);
  room_ = std::move(call.inputs);
  const absl::Status ended = recorder_->order().End(from.stream);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(ended);
  return std::move(from.results);
}

}  // namespace kiln
