#ifndef KILN_PROTO_KEY_GRAPH_CHECKS_H_
#define KILN_PROTO_KEY_GRAPH_CHECKS_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/graph.pb.h"

namespace kiln {

// What canonical_graph.cc asks of the pieces of a graph, each check by itself.
// Messages say what is wrong; the caller puts in front of them which piece it
// is, once it knows that something is. Limits are those of graph_limits.h.
// Pure.

// MALFORMED_GRAPH.
absl::Status MalformedRequest(absl::string_view what);

// TOO_LARGE, "`found` `what`, at most `due`".
absl::Status TooLarge(absl::string_view what, int64_t found, int64_t due);

// A name as a message may quote it: escaped to one line, and cut.
std::string Quoted(absl::string_view name);

// TOO_LARGE over kMaxNameBytes, MALFORMED_GRAPH with a control character.
absl::Status CheckGraphName(absl::string_view name);

// MALFORMED_GRAPH when the message (not those inside of it) has a field from a
// later build: it may change what the graph means, so it is not ours to drop.
absl::Status CheckKnown(const google::protobuf::Message& message);

// The elements of the known sizes; a symbol counts as one.
// MALFORMED_GRAPH for a negative size, TOO_LARGE over kMaxTensorElements.
absl::StatusOr<int64_t> CountElements(const wire::TensorMeta& meta);

}  // namespace kiln

#endif  // KILN_PROTO_KEY_GRAPH_CHECKS_H_
