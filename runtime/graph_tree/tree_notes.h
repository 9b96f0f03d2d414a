#ifndef KILN_RUNTIME_GRAPH_TREE_TREE_NOTES_H_
#define KILN_RUNTIME_GRAPH_TREE_TREE_NOTES_H_

#include <cstdint>
#include <string>

// What a tree has done, and why, as data.

namespace kiln::graph_tree {

struct TreeCounters {
  int64_t warm_ups = 0;
  int64_t recordings = 0;
  int64_t replays = 0;
  int64_t plain_runs = 0;   // without a graph
  int64_t checkpoints = 0;  // restored
  int64_t skips = 0;        // functions that go without a graph somewhere
  int64_t recorded_copied_inputs = 0;
  int64_t records_without_match = 0;  // where older recordings did not serve
};

struct TreeNote {
  enum class Kind {
    kSkip,      // a function runs without a graph, here or from now on
    kWarning,   // for the user
    kRerecord,  // why no older recording served
    kDropped,   // why all recordings went
  };
  Kind kind = Kind::kSkip;
  int function = 0;
  std::string text;
};

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_TREE_NOTES_H_
