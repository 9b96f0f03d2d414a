#ifndef KILN_PROTO_BASE_TUNED_LINE_H_
#define KILN_PROTO_BASE_TUNED_LINE_H_

#include "absl/strings/string_view.h"

namespace kiln {

// Stands in front of the choice in a line of CompilePlan.tuned, "KEY =CHOICE", where
// the plan keeps it whatever is decided later: with the option `deterministic`.
inline constexpr absl::string_view kPinnedDecision = "=";

// Begins the key of a decision that other keys of the plan depend on, such as whether
// a product is padded: it is measured first, and the graph is planned again.
inline constexpr absl::string_view kWayKey = "way_";

}  // namespace kiln

#endif  // KILN_PROTO_BASE_TUNED_LINE_H_
