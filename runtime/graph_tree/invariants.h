#ifndef KILN_RUNTIME_GRAPH_TREE_INVARIANTS_H_
#define KILN_RUNTIME_GRAPH_TREE_INVARIANTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/graph_tree/node.h"
#include "runtime/graph_tree/recorder.h"

// Whether a recording may be replayed for a call, in the memory that the user
// still holds.

namespace kiln::graph_tree {

enum class Match {
  kMatches,
  kManagedAddress,  // unexpected: as kStaticAddress
  kStillLive,       // what was dead when the node was recorded is alive
  kStaticAddress,
};

// "cudagraph managed tensor data pointer changed"
absl::string_view MatchText(Match match);

enum class StaticAddresses { kCompare, kTrust };

// Compares, in the order of Match. When all holds, the caller's references to
// managed inputs are dropped, but for preserved ones.
//
// INTERNAL when an input that died in the recording does not die now.
absl::StatusOr<Match> CheckInvariants(const Node& node, Call& call,
                                      StaticAddresses addresses,
                                      Recorder& recorder);

// OK when every static input is where it was recorded. FAILED_PRECONDITION,
// with MismatchText.
absl::Status CheckStaticInputs(const Node& node, const Call& call);

// For people: MatchText, and each input that has moved, with its stack trace.
std::string MismatchText(const Node& node, const Call& call, Match match);

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_INVARIANTS_H_
