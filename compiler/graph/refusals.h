#ifndef KILN_COMPILER_GRAPH_REFUSALS_H_
#define KILN_COMPILER_GRAPH_REFUSALS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Nodes that Kiln does not compile, collected so that a caller learns of all
// of them at once. Nodes refused in the same words are told of together:
//
//   node #3, node #9: operator aten.foo is not known | node #5: dtype ...
//
// Not thread-safe.
class Refusals {
 public:
  // The text of ToStatus stays below this, in bytes: a gRPC trailer has 8 KiB
  // for everything. What does not fit is counted: "| and 12 more".
  static constexpr size_t kMostBytes = 4096;
  // Different words; each costs its maker a search for near names.
  static constexpr size_t kMostGroups = 64;

  // `where` is the node's name ("node #3"), `status` what was said of it.
  void Add(std::string where, const absl::Status& status);

  bool empty() const { return groups_.empty(); }

  // Whether to stop looking: a graph is not that wrong by mistake.
  bool full() const { return groups_.size() >= kMostGroups; }

  // UNSUPPORTED_OP with all nodes, in order of their first; OK without any.
  absl::Status ToStatus() const;

 private:
  // Words, and the nodes that they were said of.
  std::vector<std::pair<std::string, std::vector<std::string>>> groups_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_REFUSALS_H_
