#ifndef KILN_COMPILER_GRAPH_BIND_ARGUMENTS_H_
#define KILN_COMPILER_GRAPH_BIND_ARGUMENTS_H_

#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/graph/op_def.h"

namespace kiln {

// Puts arguments in schema order, fills defaults in, and checks each against
// its parameter's type. An int for a float becomes a double; an int for a list
// of n ints becomes n of them; an absent optional is NoneArgument.
//
// MALFORMED_GRAPH names the parameter: missing, given twice, not known, one too
// many, or of a wrong type. Whether a value exists is not looked at.
absl::StatusOr<Arguments> BindArguments(
    const OpDef& op, Arguments positional,
    absl::Span<const std::pair<absl::string_view, Argument>> by_name = {});

// Whether a parameter that takes a tensor may hold a number here.
bool TakesWrappedNumber(const Param& param);

// "int[]", for messages.
absl::string_view TypeText(ParamType type);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_BIND_ARGUMENTS_H_
