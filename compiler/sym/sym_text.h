#ifndef KILN_COMPILER_SYM_SYM_TEXT_H_
#define KILN_COMPILER_SYM_SYM_TEXT_H_

// Reads what SymExpr::ToString writes:
//
//   sum     = ["-"] product {("+" | "-") product}
//   product = factor {("*" | "//" | "%") factor}       left to right
//   factor  = number | name | ("min" | "max") "(" sum "," sum ")"
//           | "(" sum ")"

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

using VarOfName = absl::FunctionRef<std::optional<Var>(absl::string_view)>;

// The whole text. INVALID_ARGUMENT names what stands where something else was
// due. `var_of` gives the variable of a name, or nothing.
absl::StatusOr<SymExpr> ParseSymExpr(absl::string_view text, VarOfName var_of);

// The longest expression at the start of `text`, which is moved past it.
absl::StatusOr<SymExpr> ConsumeSymExpr(absl::string_view& text,
                                       VarOfName var_of);

// The variable of a default name: "s0", "i12", "t3".
std::optional<Var> DefaultVarOfName(absl::string_view name);

}  // namespace kiln

#endif  // KILN_COMPILER_SYM_SYM_TEXT_H_
