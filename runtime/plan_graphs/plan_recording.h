#ifndef KILN_RUNTIME_PLAN_GRAPHS_PLAN_RECORDING_H_
#define KILN_RUNTIME_PLAN_GRAPHS_PLAN_RECORDING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device.h"
#include "runtime/graph_tree/recorder.h"
#include "runtime/placed_run.h"
#include "runtime/plan_graphs/call_order.h"
#include "runtime/plan_graphs/graph_memory.h"
#include "runtime/plan_graphs/input_copies.h"
#include "runtime/tensor.h"

namespace kiln {

struct PlanCall;  // plan_recorder.h

// What the tree sees of results.
std::vector<graph_tree::Output> OutputsOf(absl::Span<const OutputValue> results,
                                          const GraphMemory& memory);

// A plan that was captured.
class PlanRecording final : public graph_tree::Recording {
 public:
  // `memory` and `order` outlive this. `results`: with owners, until FirstRun.
  PlanRecording(std::shared_ptr<Device> device, GraphMemory& memory,
                CallOrder& order, std::unique_ptr<PlacedRun> run,
                std::unique_ptr<CapturedGraph> graph, InputCopies copies,
                std::vector<OutputValue> results);

  // Waits for what was launched.
  ~PlanRecording() override;

  absl::Span<const graph_tree::Output> outputs() const override {
    return outputs_;
  }
  absl::Status FirstRun(graph_tree::Call& call,
                        absl::Span<const graph_tree::OutputRule>) override;
  absl::Status Replay(graph_tree::Call& call,
                      absl::Span<const graph_tree::OutputRule> rules,
                      absl::Span<graph_tree::Storage> storages) override;
  graph_tree::Tensor cached(int output) const override;
  void DropCached(int output) override { cached_[output].reset(); }

 private:
  absl::Status Launch(const PlanCall& caller);
  // Waits for it where the call is traced.
  absl::Status LaunchTraced(const PlanCall& caller);
  // An owner for result `index`, by its rule; null where nothing is owned.
  std::shared_ptr<void> OwnerFor(int index, const graph_tree::OutputRule& rule,
                                 absl::Span<const OutputValue> so_far);

  const std::shared_ptr<Device> device_;
  GraphMemory& memory_;
  CallOrder& order_;
  const std::unique_ptr<PlacedRun> run_;
  const std::unique_ptr<CapturedGraph> graph_;
  InputCopies copies_;
  const std::vector<graph_tree::Output> outputs_;
  std::vector<OutputValue> results_;  // of the capture, until FirstRun
  // As recorded; those of the pool have no owner.
  std::vector<OutputValue> forms_;
  std::vector<std::optional<Tensor>> cached_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_PLAN_RECORDING_H_
