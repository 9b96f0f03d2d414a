#ifndef KILN_COMPILER_CODEGEN_INDEX_TEXT_H_
#define KILN_COMPILER_CODEGEN_INDEX_TEXT_H_

// Integer expressions as C text.

#include <string>

#include "absl/functional/function_ref.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

struct IndexDialect {
  absl::FunctionRef<std::string(Var)> name_of;
  // Whether `e` is known to be non-negative. Then C's / and % are the floor division and
  // modulus of `e`.
  absl::FunctionRef<bool(const SymExpr& e)> not_negative;
  bool index32;  // int; otherwise long long
};

// A C expression of one value, in parentheses when it is more than an atom.
std::string IndexText(const SymExpr& e, const IndexDialect& dialect);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_INDEX_TEXT_H_
