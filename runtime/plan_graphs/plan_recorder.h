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
#include "runtime/plan_graphs/graph_memory.h"
#include "runtime/tensor.h"

namespace kiln {

// Function::body of a plan.
struct PlanBody {
  std::shared_ptr<const Executor> executor;
};

// Call::caller of a plan.
struct PlanCall {
  std::vector<InputValue> inputs;  // lose their owners as the run drops them
  uint64_t seed = 0;
  Stream stream = nullptr;
  std::vector<OutputValue> results;
};

// A call as the tree sees it; refers to `from`.
graph_tree::Call CallOf(PlanCall& from, const GraphMemory& memory);

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
  void DropInput(graph_tree::Call& call, int input) override;

 private:
  PlanRecorder(std::shared_ptr<Device> device, GraphMemory& memory)
      : device_(std::move(device)), memory_(memory) {}

  // What is put on `second` from here on runs after what is on `first`.
  absl::Status Order(Stream first, Stream second);
  // The same elements in the pool, copied on the pool's stream.
  absl::StatusOr<Tensor> CopyIntoPool(const Tensor& tensor);

  const std::shared_ptr<Device> device_;
  GraphMemory& memory_;
  std::unique_ptr<OwnedStream> stream_;
  std::unique_ptr<Marker> marker_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_PLAN_RECORDER_H_
