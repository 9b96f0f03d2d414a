#include "client/session_graphs.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "proto/base/status.h"

namespace kiln {
namespace {

bool NeedsPlainRun(const RunOptions& options) {
  return options.allocator != nullptr || options.inputs != nullptr ||
         options.results != nullptr || options.launches != nullptr ||
         options.seed_slot != nullptr;
}

// Results outlive the session: their memory keeps the device.
std::shared_ptr<CachingAllocator> MemoryOf(std::shared_ptr<Device> device,
                                           int64_t limit_bytes) {
  struct Memory {
    Memory(std::shared_ptr<Device> on, int64_t limit)
        : device(std::move(on)), allocator(device->segments(), limit) {}
    const std::shared_ptr<Device> device;
    CachingAllocator allocator;  // goes first
  };
  auto memory = std::make_shared<Memory>(std::move(device), limit_bytes);
  return {memory, &memory->allocator};
}

}  // namespace

SessionGraphs::SessionGraphs(const OpenedDevice& device,
                             const GraphOptions& options)
    : device_(device) {
  MutexLock lock(&mu_);
  auto made = PlanGraphs::Make(
      device.device, MemoryOf(device.device, options.memory_limit_bytes),
      options);
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
    if (graphs_ != nullptr && !IsForgotten(executor)) {
      const auto [at, is_new] = plans_.emplace(executor.get(), 0);
      if (is_new) at->second = graphs_->Add(executor, static_inputs());
      return graphs_->RunViews(at->second, inputs,
                               {.seed = options.seed,
                                .stream = options.stream,
                                .trace = options.trace,
                                .nodes = options.nodes});
    }
  }
  return executor->RunGuarded(inputs, options);
}

bool SessionGraphs::IsForgotten(
    const std::shared_ptr<const Executor>& executor) const {
  return std::any_of(forgotten_.begin(), forgotten_.end(),
                     [&](const std::weak_ptr<const Executor>& forgotten) {
                       return forgotten.lock() == executor;
                     });
}

void SessionGraphs::Forget(const std::shared_ptr<const Executor>& executor) {
  MutexLock lock(&mu_);
  std::erase_if(forgotten_, [](const std::weak_ptr<const Executor>& one) {
    return one.expired();
  });
  forgotten_.push_back(executor);
  const auto at = plans_.find(executor.get());
  if (at == plans_.end()) return;
  graphs_->Remove(at->second);
  plans_.erase(at);
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

std::string SessionGraphs::MemoryText() const {
  MutexLock lock(&mu_);
  return graphs_ == nullptr ? "" : graphs_->memory().allocator().ToText();
}

void SessionGraphs::Look(
    absl::FunctionRef<void(const graph_tree::GraphTree&)> look) const {
  MutexLock lock(&mu_);
  if (graphs_ != nullptr) look(graphs_->tree());
}

}  // namespace kiln
