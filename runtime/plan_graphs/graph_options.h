#ifndef KILN_RUNTIME_PLAN_GRAPHS_GRAPH_OPTIONS_H_
#define KILN_RUNTIME_PLAN_GRAPHS_GRAPH_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace kiln {

// What a program chooses for its device graphs.
struct GraphOptions {
  // How often a plan is recorded anew at one place because an input that should
  // stay has moved; then it goes without a graph there. Too high: a program whose
  // inputs always move fills memory with recordings. Too low: one whose inputs
  // have a few places goes without graphs.
  int rerecord_limit = 128;
  // Values of a plan's symbols, in the order in which the inputs have them first,
  // that alone get a graph. Empty: all do. Of a plan that has met another one that
  // is told once.
  std::vector<std::vector<int64_t>> capture_sizes;
  // Plans with symbols go without graphs.
  bool skip_dynamic = false;
  // When one plan has met more sizes than this, each with a graph of its own,
  // that is told once. 0: never.
  int sizes_warn_limit = 8;
  // Whether a plan may write to results of graphs that it is given.
  bool mutation_of_results = true;
  // That a plan cannot have a graph is an error.
  bool skip_is_error = false;
  // Compares memory with what is in use at each restore. Slow: for tests.
  bool check_pool = false;
  // Of all recordings and warm-ups together. Too low: programs run out of memory
  // that the device has.
  int64_t memory_limit_bytes = std::numeric_limits<int64_t>::max();
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_GRAPH_OPTIONS_H_
