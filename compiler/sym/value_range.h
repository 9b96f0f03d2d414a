#ifndef KILN_COMPILER_SYM_VALUE_RANGE_H_
#define KILN_COMPILER_SYM_VALUE_RANGE_H_

#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

// Inclusive bounds of an integer. Arithmetic saturates at the ends.
struct ValueRange {
  static constexpr int64_t kMin = -(int64_t{1} << 62);
  static constexpr int64_t kMax = int64_t{1} << 62;
  int64_t min = kMin;
  int64_t max = kMax;

  bool Contains(int64_t v) const { return min <= v && v <= max; }
  friend bool operator==(const ValueRange& a, const ValueRange& b) {
    return a.min == b.min && a.max == b.max;
  }
};

// Bounds of `e`, given bounds of its variables. Sound, not always tight.
ValueRange BoundsOf(const SymExpr& e,
                    absl::FunctionRef<ValueRange(Var)> range_of);

}  // namespace kiln

#endif  // KILN_COMPILER_SYM_VALUE_RANGE_H_
