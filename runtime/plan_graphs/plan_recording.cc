#include "runtime/plan_graphs/plan_recording.h"

#include <variant>

#include "proto/base/status.h"
#include "runtime/plan_graphs/plan_recorder.h"

namespace kiln {
namespace {

using Kind = graph_tree::OutputRule::Kind;

// The results, without the owners of those that are in the pool.
std::vector<OutputValue> FormsOf(absl::Span<const OutputValue> results,
                                 const GraphMemory& memory) {
  std::vector<OutputValue> forms(results.begin(), results.end());
  for (OutputValue& form : forms) {
    auto* const tensor = std::get_if<Tensor>(&form);
    if (tensor != nullptr && memory.StorageOf(*tensor) != nullptr) {
      tensor->owner.reset();
    }
  }
  return forms;
}

}  // namespace

std::vector<graph_tree::Output> OutputsOf(absl::Span<const OutputValue> results,
                                          const GraphMemory& memory) {
  std::vector<graph_tree::Output> outputs;
  for (const OutputValue& result : results) {
    graph_tree::Output& output = outputs.emplace_back();
    const auto* const tensor = std::get_if<Tensor>(&result);
    if (tensor == nullptr) continue;
    output.is_tensor = true;
    output.on_device = true;
    output.storage_address = tensor->storage;
    output.storage = memory.StorageOf(*tensor);
  }
  return outputs;
}

PlanRecording::PlanRecording(std::shared_ptr<Device> device,
                             GraphMemory& memory, CallOrder& order,
                             std::unique_ptr<PlacedRun> run,
                             std::unique_ptr<CapturedGraph> graph,
                             InputCopies copies,
                             std::vector<OutputValue> results)
    : device_(std::move(device)),
      memory_(memory),
      order_(order),
      run_(std::move(run)),
      graph_(std::move(graph)),
      copies_(std::move(copies)),
      outputs_(OutputsOf(results, memory)),
      results_(std::move(results)),
      forms_(FormsOf(results_, memory)),
      cached_(forms_.size()) {}

PlanRecording::~PlanRecording() {
  IgnoreBecause(order_.Wait(),
                "what failed there was or will be told by another wait");
}

absl::Status PlanRecording::Launch(const PlanCall& caller) {
  if (void* const slot = run_->seed_slot()) {
    RETURN_IF_ERROR(device_->Fill(slot, sizeof(caller.seed), 1, caller.seed,
                                  caller.stream));
  }
  return graph_->Launch(caller.stream);
}

absl::Status PlanRecording::LaunchTraced(const PlanCall& caller) {
  if (caller.trace == nullptr) return Launch(caller);
  const int64_t start = Trace::Now();
  RETURN_IF_ERROR(Launch(caller));
  RETURN_IF_ERROR(device_->Synchronize(caller.stream));
  caller.trace->AddReplay(start, run_->KernelNames());
  return absl::OkStatus();
}

absl::Status PlanRecording::FirstRun(graph_tree::Call& call,
                                     absl::Span<const graph_tree::OutputRule>) {
  auto& caller = *static_cast<PlanCall*>(call.caller);
  RETURN_IF_ERROR(LaunchTraced(caller));
  caller.results = std::move(results_);
  results_.clear();
  return absl::OkStatus();
}

absl::Status PlanRecording::Replay(
    graph_tree::Call& call, absl::Span<const graph_tree::OutputRule> rules,
    absl::Span<graph_tree::Storage> storages) {
  auto& caller = *static_cast<PlanCall*>(call.caller);
  RETURN_IF_ERROR(copies_.Put(
      [&](int input) { return caller.view(input).data; }, caller.stream));
  RETURN_IF_ERROR(LaunchTraced(caller));
  std::vector<OutputValue> results = forms_;
  for (size_t i = 0; i < results.size(); ++i) {
    auto* const tensor = std::get_if<Tensor>(&results[i]);
    if (tensor == nullptr || rules[i].kind == Kind::kStatic) continue;
    tensor->owner = OwnerFor(static_cast<int>(i), rules[i], results);
    storages[i] = memory_.StorageOf(*tensor);
  }
  caller.results = std::move(results);
  caller.inputs.clear();
  return absl::OkStatus();
}

std::shared_ptr<void> PlanRecording::OwnerFor(
    int index, const graph_tree::OutputRule& rule,
    absl::Span<const OutputValue> so_far) {
  const void* const address = outputs_[index].storage_address;
  switch (rule.kind) {
    case Kind::kCached:
      if (!cached_[index].has_value()) {
        cached_[index] = std::get<Tensor>(forms_[index]);
        cached_[index]->owner =
            memory_.NewStorage(address, GraphMemory::Block::kNobodys);
      }
      return cached_[index]->owner;
    case Kind::kFresh:
      return memory_.NewStorage(address, GraphMemory::Block::kNobodys);
    case Kind::kOfOutput:
      return std::get<Tensor>(so_far[rule.index]).owner;
    case Kind::kOfStorage:
      return GraphMemory::OwnerOf(rule.storage);
    case Kind::kValue:
    case Kind::kStatic:
      break;
  }
  return nullptr;
}

graph_tree::Tensor PlanRecording::cached(int output) const {
  const std::optional<Tensor>& tensor = cached_[output];
  return tensor.has_value() ? const_cast<Tensor*>(&*tensor) : nullptr;
}

}  // namespace kiln
