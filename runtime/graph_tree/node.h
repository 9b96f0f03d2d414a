#ifndef KILN_RUNTIME_GRAPH_TREE_NODE_H_
#define KILN_RUNTIME_GRAPH_TREE_NODE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/graph_tree/liveness.h"
#include "runtime/graph_tree/pool.h"
#include "runtime/graph_tree/recorder.h"

// One run of a function at one place of the tree: a recording, or a warm-up
// that lasts as long as its path.

namespace kiln::graph_tree {

// An output of a node on a path; depth 0 is the root.
struct PathIndex {
  int depth = 0;
  int output = 0;

  friend bool operator==(const PathIndex&, const PathIndex&) = default;
};

// What was decided for functions that are called behind a node, or first.
struct Followers {
  absl::flat_hash_map<int, bool> refused_mutation;
  absl::flat_hash_map<int, int> unexpected_rerecords;
};

struct Node;
using Children = absl::flat_hash_map<int, std::vector<std::unique_ptr<Node>>>;

struct NodeOutput {
  WatchedStorage storage;  // none: not a tensor, or its memory is not ours
  const void* address = nullptr;  // of the storage
};

struct Node {
  // The three outlive this; `parent` may be null.
  Node(const Function& function_, Node* parent_, int id_)
      : function(&function_), parent(parent_), id(id_) {
    if (parent != nullptr) path = parent->path;
    path.push_back(this);
  }
  Node(const Node&) = delete;

  bool is_warm_up() const { return recording == nullptr; }

  Tensor cached(int output) const {
    return recording ? recording->cached(output) : nullptr;
  }
  bool IsLive(int output) const {
    return outputs[output].storage.IsLive(cached(output));
  }

  const Function* function;
  Node* parent;
  int id;                   // of warm-ups negative
  std::vector<Node*> path;  // from the root to this one
  std::vector<NodeOutput> outputs;
  Followers followers;

  // Of a recording only.
  std::unique_ptr<Recording> recording;
  std::vector<InputUse> uses;
  std::vector<const void*> addresses;  // of static and managed inputs
  std::vector<int> managed;            // inputs
  // Managed inputs that an output aliases: a replay keeps them.
  std::vector<bool> preserved;
  std::vector<OutputRule> rules;
  // Of rules kOfStorage: whose storage.
  std::vector<PathIndex> aliased;
  // What must be dead before a replay, and is not known to be by the parent: it
  // was when the recording began, or died in it by another's hand.
  std::vector<PathIndex> dead_before;
  // What died with the inputs of the recorded call.
  std::vector<PathIndex> dead_after;
  std::vector<PathIndex> live_after;  // with own outputs
  std::unique_ptr<PoolState> pool_state;
  Children children;  // by their functions
};

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_NODE_H_
