#include "client/session_graphs.h"

#include <iterator>
#include <string>
#include <utility>

#include "proto/base/status.h"

namespace kiln {
namespace {

bool NeedsPlainRun(const RunOptions& options) {
  return options.allocator != nullptr || options.inputs != nullptr ||
         options.results != nullptr || options.launches != nullptr ||
         options.trace != nullptr || options.seed_slot != nullptr;
}

// Results outlive the session: their memory keeps the device.
std::shared_ptr<CachingAllocator> MemoryOf(std::shared_ptr<Device> device) {
  struct Memory {
    explicit Memory(std::shared_ptr<Device> on)
        : device(std::move(on)), allocator(device->segments()) {}
    const std::shared_ptr<Device> device;
    CachingAllocator allocator;  // goes first
  };
  auto memory = std::make_shared<Memory>(std::move(device));
  return {memory, &memory->allocator};
}

}  // namespace

SessionGraphs::SessionGraphs(const OpenedDevice& device) : device_(device) {
  MutexLock lock(&mu_);
  auto made = PlanGraphs::Make(device.device, MemoryOf(device.device));
  if (made.ok()) {
    graphs_ = *std::move(made);
    return;
  }
  notes_.push_back({graph_tree::TreeNote::Kind::kSkip, -1,
                    std::string(made.status().message())});
}

absl::StatusOr<std::vector<OutputValue>> SessionGraphs::Run(
    const std::shared_ptr<const Executor>& executor,
    absl::Span<const InputView> inputs, Indices static_inputs,
    const RunOptions& options) {
  if (!NeedsPlainRun(options)) {
    MutexLock lock(&mu_);
    if (graphs_ != nullptr) {
      const auto [at, is_new] = plans_.emplace(executor.get(), 0);
      if (is_new) at->second = graphs_->Add(executor, static_inputs());
      return graphs_->RunViews(
          at->second, inputs, {.seed = options.seed, .stream = options.stream});
    }
  }
  return executor->RunGuarded(inputs, options);
}

void SessionGraphs::MarkStepBegin() {
  MutexLock lock(&mu_);
  if (graphs_ != nullptr) graphs_->BeginStep();
}

std::vector<graph_tree::TreeNote> SessionGraphs::TakeNotes() {
  MutexLock lock(&mu_);
  std::vector<graph_tree::TreeNote> notes = std::exchange(notes_, {});
  if (graphs_ == nullptr) return notes;
  std::vector<graph_tree::TreeNote> more = graphs_->TakeNotes();
  std::move(more.begin(), more.end(), std::back_inserter(notes));
  return notes;
}

void SessionGraphs::Look(
    absl::FunctionRef<void(const graph_tree::GraphTree&)> look) const {
  MutexLock lock(&mu_);
  if (graphs_ != nullptr) look(graphs_->tree());
}

}  // namespace kiln
