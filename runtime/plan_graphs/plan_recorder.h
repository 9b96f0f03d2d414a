#ifndef KILN_RUNTIME_PLAN_GRAPHS_PLAN_RECORDER_H_
#define KILN_RUNTIME_PLAN_GRAPHS_PLAN_RECORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/graph_tree/recorder.h"
#include "runtime/input_view.h"
#include "runtime/placed_run.h"
#include "runtime/plan_graphs/call_order.h"
#include "runtime/plan_graphs/graph_memory.h"
#include "runtime/plan_graphs/plan_recording.h"
#include "runtime/run_options.h"
#include "runtime/tensor.h"
#include "runtime/trace.h"

namespace kiln {

// Function::body of a plan.
struct PlanBody {
  int number = 0;  // for people
  std::shared_ptr<const Executor> executor;
  std::vector<bool>
      reads_offset;  // of each input, whether a symbol is its offset
};

// Call::caller of a plan.
struct PlanCall {
  // What a caller gave who keeps it himself, and all that a replay looks at.
  // Empty where `inputs` were given.
  absl::Span<const InputView> views;
  // Lose their owners as the run drops them. Those of `views` are made when a run
  // needs them: FindStorages.
  std::vector<InputValue> inputs;
  uint64_t seed = 0;
  Stream stream = nullptr;
  Trace* trace = nullptr;
  const NodeWords* nodes = nullptr;
  std::vector<OutputValue> results;

  size_t size() const { return views.empty() ? inputs.size() : views.size(); }
  InputView view(size_t input) const {
    return views.empty() ? ViewOf(inputs[input]) : views[input];
  }
  // Calls `each` with all views in order, until it says false. Whether it never did.
  template <typename Each>
  bool ForEachView(const Each& each) const {
    for (const InputView& view : views) {
      if (!each(view)) return false;
    }
    if (!views.empty()) return true;
    for (const InputValue& input : inputs) {
      if (!each(ViewOf(input))) return false;
    }
    return true;
  }
};

// Runs plans, captures them and replays them, with memory of one pool and on one
// stream. One thread at a time.
class PlanRecorder final : public graph_tree::Recorder {
 public:
  // `memory` outlives this; its allocator is of `device`.
  static absl::StatusOr<std::unique_ptr<PlanRecorder>> Make(
      std::shared_ptr<Device> device, GraphMemory& memory);

  absl::Status RunPlainly(const graph_tree::Function& function,
                          graph_tree::Call& call) override;
  absl::StatusOr<std::vector<graph_tree::Output>> WarmUp(
      const graph_tree::Function& function, graph_tree::Call& call) override;
  absl::StatusOr<std::unique_ptr<graph_tree::Recording>> Record(
      const graph_tree::Function& function, graph_tree::Call& call,
      absl::Span<const graph_tree::InputUse> uses) override;
  absl::Status FindStorages(graph_tree::Call& call) override;
  bool OutlivesInputs(const graph_tree::Call& call, graph_tree::Storage storage,
                      graph_tree::Tensor cached) const override;
  void DropInput(graph_tree::Call& call, int input) override;

  // Makes the inputs of a call of its views. A result that is handed on is known by
  // where it starts.
  void TakeViews(PlanCall& call) const;

  // Of the calls: whoever calls the tree begins and ends them here.
  CallOrder& order() { return *order_; }

 private:
  PlanRecorder(std::shared_ptr<Device> device, GraphMemory& memory)
      : device_(std::move(device)), memory_(memory) {}

  // What is put on `second` from here on runs after what is on `first`.
  absl::Status Order(Stream first, Stream second);
  // Memory of the pool for the same elements.
  absl::StatusOr<Tensor> SlotFor(const Tensor& tensor);
  // Puts copies in the place of the inputs that replays copy, on the pool's stream.
  absl::StatusOr<InputCopies> CopyInputs(
      const PlanBody& body, std::vector<InputValue>& inputs,
      absl::Span<const graph_tree::InputUse> uses);
  absl::StatusOr<std::unique_ptr<PlacedRun>> Place(
      const PlanBody& body, uint64_t seed, std::vector<InputValue> inputs);
  absl::StatusOr<std::unique_ptr<CapturedGraph>> Capture(PlacedRun& run);

  const std::shared_ptr<Device> device_;
  GraphMemory& memory_;
  std::unique_ptr<OwnedStream> stream_;
  std::unique_ptr<Marker> marker_;
  std::unique_ptr<CallOrder> order_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_PLAN_RECORDER_H_
