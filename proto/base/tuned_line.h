#ifndef KILN_PROTO_BASE_TUNED_LINE_H_
#define KILN_PROTO_BASE_TUNED_LINE_H_

#include "absl/strings/string_view.h"

namespace kiln {

// Stands in front of the choice in a line of CompilePlan.tuned, "KEY =CHOICE", where
// the plan keeps it whatever is decided later: with the option `deterministic`.
inline constexpr absl::string_view kPinnedDecision = "=";

}  // namespace kiln

#endif  // KILN_PROTO_BASE_TUNED_LINE_H_
