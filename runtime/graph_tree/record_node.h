#ifndef KILN_RUNTIME_GRAPH_TREE_RECORD_NODE_H_
#define KILN_RUNTIME_GRAPH_TREE_RECORD_NODE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/graph_tree/node.h"
#include "runtime/graph_tree/pool.h"
#include "runtime/graph_tree/recorder.h"

// Makes nodes: by a capture, or by a warm-up; and replays them.

namespace kiln::graph_tree {

// The tree's surroundings. All outlive it.
struct Surroundings {
  Recorder* recorder = nullptr;
  Pool* pool = nullptr;
  Liveness* liveness = nullptr;
};

// Captures `function` behind `parent` (null: as a root), runs the graph once
// and gives the caller the outputs. The node is not yet in the tree.
//
// INVALID_ARGUMENT  an output has memory on another device
// or what the recorder or the pool says.
absl::StatusOr<std::unique_ptr<Node>> RecordNode(const Surroundings& around,
                                                 const Function& function,
                                                 Node* parent, int id,
                                                 Call& call);

// Runs `function` with memory from the pool.
absl::StatusOr<std::unique_ptr<Node>> WarmUpNode(const Surroundings& around,
                                                 const Function& function,
                                                 Node* parent, int id,
                                                 Call& call);

// For a call that CheckInvariants let through.
absl::Status ReplayNode(const Surroundings& around, Node& node, Call& call);

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_RECORD_NODE_H_
