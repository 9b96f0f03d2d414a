#ifndef KILN_RUNTIME_PLAN_GRAPHS_PLAN_GRAPHS_H_
#define KILN_RUNTIME_PLAN_GRAPHS_PLAN_GRAPHS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/caching_allocator.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/graph_tree/generations.h"
#include "runtime/graph_tree/graph_tree.h"
#include "runtime/input_view.h"
#include "runtime/plan_graphs/call_key.h"
#include "runtime/plan_graphs/graph_memory.h"
#include "runtime/plan_graphs/graph_options.h"
#include "runtime/plan_graphs/plan_recorder.h"
#include "runtime/run_options.h"
#include "runtime/tensor.h"
#include "runtime/trace.h"

namespace kiln {

// Plans of one device as captured graphs that share one pool of memory
// (graph_tree.h): the first call of a plan warms up, the second records, later
// ones replay, while the caller keeps what results he likes. For a program whose
// short kernels wait for the host.
//
// Results are the caller's until the next iteration begins: then they may be
// overwritten, and those that no replay gave are taken back. The last ones outlive
// this. One that was taken back as an input is FAILED_PRECONDITION; who reads its
// memory himself is not warned.
//
// Calls on several streams run one after the other on the device, in the order in
// which they are made. Other work that reads results is the caller's to order
// before the next call on another stream. One thread at a time.
class PlanGraphs {
 public:
  struct CallOptions {
    uint64_t seed = 0;
    Stream stream = nullptr;  // the results are ready there; may go after that
    // As of a plain run; a replay is one event with its kernels, and what is captured
    // is none.
    Trace* trace = nullptr;
    const NodeWords* nodes = nullptr;
  };

  // `memory` is of `device`; `options` are each plan's. UNIMPLEMENTED: the
  // device captures nothing.
  static absl::StatusOr<std::unique_ptr<PlanGraphs>> Make(
      std::shared_ptr<Device> device, std::shared_ptr<CachingAllocator> memory,
      GraphOptions options = {});
  // A plan to call by the number that is returned. `static_inputs`: those that
  // stay where they are, such as weights; one that moves is recorded anew.
  int Add(std::shared_ptr<const Executor> executor,
          std::vector<int> static_inputs);

  // The plan is not called again. Its recordings and its executor go when the
  // path of the last call has ended.
  void Remove(int plan);

  // Calls it. Errors: those of Executor::Run and of GraphTree::Run.
  absl::StatusOr<std::vector<OutputValue>> Run(int plan,
                                               std::vector<InputValue> inputs,
                                               const CallOptions& options);
  // The same for inputs that a guard table of the plan has let through, as
  // Executor::RunGuarded takes them. Views are of memory that the caller keeps
  // while the call goes on; of one without a tensor, a result of graphs is known
  // by where it starts.
  absl::StatusOr<std::vector<OutputValue>> RunViews(
      int plan, absl::Span<const InputView> inputs, const CallOptions& options);

  // The next call is the first of an iteration. Without any of these a caller
  // keeps his results for ever, and no path of the tree ends while he does.
  void BeginStep() { generations_.MarkStepBegin(); }

  const graph_tree::GraphTree& tree() const { return *tree_; }
  // What was decided, and why.
  std::vector<graph_tree::TreeNote> TakeNotes() { return tree_->TakeNotes(); }
  const GraphMemory& memory() const { return *memory_; }

 private:
  struct Plan {
    explicit Plan(CallKey by) : key(std::move(by)) {}

    const CallKey key;
    std::vector<int> static_inputs;
    std::vector<int> mutated_inputs;
    PlanBody body;                                  // of the functions
    std::map<std::vector<int64_t>, int> functions;  // the tree's, by their keys
    int sizes = 0;                                  // that get graphs
    bool told_of_unlisted = false;                  // sizes that get none
    // Of the last call: the next one's are mostly the same.
    const std::vector<int64_t>* last_key = nullptr;
    int last_function = 0;
  };

  PlanGraphs() = default;
  absl::StatusOr<std::vector<OutputValue>> Run(int plan, PlanCall& call);
  absl::StatusOr<int> FunctionFor(Plan& plan, const PlanCall& call);
  // What the options say of the sizes of a new function's inputs.
  absl::Status LimitSizes(Plan& plan, const PlanCall& call, int function);
  // That no input is a result that was taken back.
  absl::Status CheckValid(PlanCall& call) const;

  GraphOptions options_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<GraphMemory> memory_;
  std::unique_ptr<PlanRecorder> recorder_;
  graph_tree::Generations generations_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<graph_tree::Input> room_;          // of the last call's inputs
  std::unique_ptr<graph_tree::GraphTree> tree_;  // goes first
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_PLAN_GRAPHS_H_
