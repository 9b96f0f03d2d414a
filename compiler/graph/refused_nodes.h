#ifndef KILN_COMPILER_GRAPH_REFUSED_NODES_H_
#define KILN_COMPILER_GRAPH_REFUSED_NODES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/refusal.h"

namespace kiln {

// Nodes that Kiln does not compile, collected so that a caller learns of all
// of them at once: as data (proto/base/refusal.h), and in a message for people,
// where nodes refused in the same words stand together:
//
//   node #3, node #9: operator aten.foo is not known | node #5: dtype ...
//
// Not thread-safe.
class RefusedNodes {
 public:
  // The message stays below this, in bytes. What does not fit is counted: "| and 12
  // more".
  static constexpr size_t kMostMessageBytes = 2048;

  // `where` is the node's name ("node #3"), `status` what was said of it:
  // UNSUPPORTED_OP or MALFORMED_GRAPH.
  void Add(uint32_t node, absl::string_view op, std::string where,
           const absl::Status& status);

  // What was said of work for these nodes of the client's graph, in a step after
  // import. False, and nothing is taken: it is no refusal, or of no node.
  bool Take(absl::Span<const uint32_t> nodes, const absl::Status& status);

  bool empty() const { return refusals_.refusals.empty(); }
  // Whether to stop looking: a status has no room for more.
  bool full() const { return bytes_ > kMostRefusalBytes; }
  // Some nodes were not looked at.
  void SetMore() { refusals_.more = true; }

  // With the reason of the first; OK without any.
  absl::Status ToStatus() const;

 private:
  Refusals refusals_;
  size_t bytes_ = 0;
  // Words, and the nodes that they were said of.
  std::vector<std::pair<std::string, std::vector<std::string>>> groups_;
  absl::flat_hash_map<std::string, size_t> group_of_;  // by words
};

// Whether an error of this reason is one of a node, which the caller's framework may
// run instead.
bool IsRefusal(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_REFUSED_NODES_H_
