#ifndef KILN_PROTO_BASE_REFUSAL_H_
#define KILN_PROTO_BASE_REFUSAL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"

namespace kiln {

namespace wire {
class Graph;
}  // namespace wire

// A node that Kiln does not compile, for programs: a client gives it to its
// framework without reading a message. Refusals travel in a status, from the
// compiler through worker, daemon and client.
struct Refusal {
  uint32_t node = 0;  // its place in wire::Graph.nodes of the request
  std::string op;     // its operator
  ErrorReason reason = ErrorReason::kUnsupportedOp;  // or kMalformedGraph
  std::string text;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

struct Refusals {
  std::vector<Refusal> refusals;  // by node; a node stands here once
  // There may be further ones, for which there was no room, or that were not looked
  // for.
  bool more = false;

  friend bool operator==(const Refusals&, const Refusals&) = default;
};

// What the refusals in one status have at most, in bytes as on the wire: some
// thousand nodes. What does not fit is left out, and `more` says so.
inline constexpr size_t kMostRefusalBytes = size_t{256} << 10;

// `status`, not OK, with these refusals in place of those it has. They are put in
// order; of two of one node the first counts.
absl::Status WithRefusals(absl::Status status, Refusals refusals);

// Gives the refusals of `status` the operators of their nodes in `graph`, the
// request's: who refuses may know a node's number alone. Those of nodes that it has
// not are dropped.
absl::Status NameOperators(absl::Status status, const wire::Graph& graph);

// None of a status without any.
Refusals RefusalsOf(const absl::Status& status);

// The same as a serialized wire::Refusals of at most so many bytes. Empty: there
// are none.
std::string RefusalBytesOf(const absl::Status& status,
                           size_t most_bytes = kMostRefusalBytes);

// What RefusalBytesOf gave, in a status; `status` as it is where the bytes are no
// refusals. Of a reason that nobody knows it is UNSUPPORTED_OP.
absl::Status WithRefusalBytes(absl::Status status, absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_REFUSAL_H_
