#ifndef KILN_COMPILER_SYM_SYM_SIMPLIFY_H_
#define KILN_COMPILER_SYM_SYM_SIMPLIFY_H_

// What follows from the ranges of variables: (i0*S + i1) // S is i0 for
// 0 <= i1 < S. Everything here is sound and not complete; S may be symbolic.

#include "absl/types/span.h"
#include "compiler/sym/shape_env.h"
#include "compiler/sym/sym_expr.h"
#include "compiler/sym/value_range.h"

namespace kiln {

// What is known of variables while indices are worked on. Refers to its parts:
// lives no longer than they do.
struct SymBounds {
  const ShapeEnv& shapes;
  // Axis i runs over [0, axis_extents[i]). Extents hold symbols only. An axis
  // without one may be any integer.
  absl::Span<const SymExpr> axis_extents;
  // Likewise for indirect variables, by their index; none: any integer.
  absl::Span<const SymExpr> indirect_extents = {};
};

// An expression with the same value for all variables within `bounds`, where
// nested and needless floordiv, mod, min and max are gone:
//
//   x // k = 0, x % k = x           for 0 <= x < k
//   (k*x + r) // k = x + r // k     sums split into multiples and the rest
//   (g*x + y) // (g*d) = x // d     for 0 <= y < g; likewise %
//   (x // k)*k + x % k = x
//   ((x // k) % m)*k + x % k = x % (k*m)
//
// Linear in the size of `e` but for pairs of terms in one sum.
SymExpr Simplify(const SymExpr& e, const SymBounds& bounds);

// Sound bounds in numbers.
ValueRange RangeWithin(const SymExpr& e, const SymBounds& bounds);

// Whether it holds for all variables within `bounds`. False: not known.
bool ProveNonNegative(const SymExpr& e, const SymBounds& bounds);
bool ProveLt(const SymExpr& a, const SymExpr& b, const SymBounds& bounds);

}  // namespace kiln

#endif  // KILN_COMPILER_SYM_SYM_SIMPLIFY_H_
