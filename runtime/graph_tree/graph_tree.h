#ifndef KILN_RUNTIME_GRAPH_TREE_GRAPH_TREE_H_
#define KILN_RUNTIME_GRAPH_TREE_GRAPH_TREE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "runtime/graph_tree/generations.h"
#include "runtime/graph_tree/invariants.h"
#include "runtime/graph_tree/node.h"
#include "runtime/graph_tree/record_node.h"
#include "runtime/graph_tree/recorder.h"
#include "runtime/graph_tree/tree_notes.h"

// Many functions as device graphs that share one pool of memory, called in any
// order, while the user keeps some of their outputs.
//
// The first call of a function is a warm-up, the second is recorded, later
// ones replay. What may follow a recording in the same memory hangs below it:
// a recording knows where all that was in use lay when it was made. A path
// through the tree ends when nothing on it is in use any more, or when the
// user's program begins a new iteration.

namespace kiln::graph_tree {

enum class TreeState { kNone, kWarmUp, kRecording, kExecution };

// One device's tree. Thread-compatible.
class GraphTree {
 public:
  // All of `around` and `generations` outlive this. `pool_name`: for messages.
  GraphTree(const Surroundings& around, const Generations& generations,
            std::string pool_name);
  ~GraphTree() { Shutdown(); }
  GraphTree(const GraphTree&) = delete;

  // Makes a function known; its id becomes the next number, which is returned.
  int AddFunction(Function function);

  // Calls a function. Errors: those of the recorder and the pool, and
  // FAILED_PRECONDITION  a static input has moved, where that is an error; a
  //                      function was refused a graph, with skip_is_error; or
  //                      after Shutdown
  // The next call works after any of them; a function that fails three times one
  // after the other runs without a graph from then on. Two kinds of calls run
  // without a graph: one that a function makes while it is warmed up or recorded,
  // and one of another thread than the last call's while outputs of the path are
  // in use.
  absl::Status Run(int function, Call& call);

  // The function goes without a graph from now on. `why` is told, unless it is
  // empty. Error: FAILED_PRECONDITION with skip_is_error.
  absl::Status GoWithoutGraph(int function, std::string why);

  // No call of the function comes any more: its recordings go, with those behind
  // them, when the path of the last call has ended. Its body may go at once.
  void RemoveFunction(int function);

  // A backward ran that is none of this tree's.
  void BackwardRanElsewhere() { forwards_pending_ = false; }

  // Has outputs that are in use own their memory, which after a replay they do
  // not until something else is allocated; then drops all recordings, with what
  // they hold. A function that is being run may call it: then the recordings go
  // when the call that runs it ends.
  void Shutdown();

  TreeState state() const {
    return current_ == nullptr ? TreeState::kNone : state_;
  }
  const Node* current() const { return current_; }
  bool forwards_pending() const { return forwards_pending_; }
  const TreeCounters& counters() const { return counters_; }
  // The recordings without a parent, in order.
  std::vector<const Node*> Roots() const;
  // What happened since the last time it was asked, the last kMostNotes of it.
  static constexpr int kMostNotes = 1000;
  std::vector<TreeNote> TakeNotes();
  // Adds one of the owner's.
  void Tell(TreeNote note);

 private:
  // Has outputs that are in use own their memory.
  absl::Status RestorePool();
  // With the pool checked, where `function` asks for that.
  absl::Status RestorePoolFor(const Function& function);
  absl::Status RunOnce(const Function& function, Call& call);
  absl::Status RunPlainly(const Function& function, Call& call);
  absl::Status WarmUp(const Function& function, Call& call);
  absl::Status Record(const Function& function, Call& call);
  // After a warm-up or a recording that failed with `status`, which it returns.
  absl::Status Failed(const Function& function, absl::Status status);
  absl::Status Execute(Node& node, Call& call);
  bool NeedsWarmUp(const Function& function) const;

  // The recording that serves, or null; then `unexpected` says why not, where
  // an address had changed.
  absl::StatusOr<Node*> FindMatch(const Function& function, Call& call,
                                  std::string& unexpected);
  // Whether it must run without a graph here; decided once and remembered, or
  // anew.
  enum class Ask { kRemembered, kAnew };
  absl::StatusOr<bool> MutationIsRefused(const Function& function, Call& call,
                                         Ask ask);
  absl::Status CountRerecord(const Function& function,
                             const std::string& unexpected);
  bool ExceedsRerecordLimit(const Function& function) const;
  // Too often to be tried again.
  bool HasFailed(const Function& function) const;

  bool CanStartGeneration() const;
  absl::Status TryEndUnreplayed(const Function& function, Call& call);
  absl::Status TryEndExecution(Call& call);
  // Before an iteration ends the path.
  absl::Status KeepGradients(Call& call);
  void EndPath();
  void InvalidateOutputs();
  void WarnOfPendingBackwards(const Function& function);

  Followers& FollowersHere() { return current_ ? current_->followers : first_; }
  const Followers& FollowersHere() const {
    return current_ ? current_->followers : first_;
  }
  Children& ChildrenHere() { return current_ ? current_->children : roots_; }
  void Enter(Node* node, TreeState state);
  absl::Status Skip(const Function& function, std::string text);
  // Drops all recordings, when outputs that are in use own their memory.
  void LetGo();
  void DropRecordings();
  // Of removed functions.
  void DropRemoved();

  const Surroundings around_;
  const Generations& generations_;
  const std::string pool_name_;

  std::vector<std::unique_ptr<Function>> functions_;
  Children roots_;
  std::vector<std::unique_ptr<Node>> warm_ups_;  // of the current path
  Followers first_;
  Node* current_ = nullptr;
  TreeState state_ = TreeState::kNone;
  int64_t generation_ = std::numeric_limits<int64_t>::min();  // of current_
  bool is_running_ = false;
  std::optional<int64_t> thread_;  // of the last call that was not run plainly
  bool forwards_pending_ = false;
  bool is_shut_down_ = false;
  int next_warm_up_ = -1;
  int next_graph_ = 0;
  absl::flat_hash_set<int> warmed_up_;
  // Warm-ups and recordings that failed, one after the other.
  absl::flat_hash_map<int, int> failures_;
  absl::flat_hash_set<int> without_graph_;
  std::vector<int> removed_;  // that the current path may still have
  absl::flat_hash_set<int> warned_of_mutation_;
  absl::flat_hash_set<int> warned_of_pending_;
  absl::flat_hash_set<int> warned_of_thread_;
  TreeCounters counters_;
  std::vector<TreeNote> notes_;
};

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_GRAPH_TREE_H_
