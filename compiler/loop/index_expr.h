#ifndef KILN_COMPILER_LOOP_INDEX_EXPR_H_
#define KILN_COMPILER_LOOP_INDEX_EXPR_H_

// Index expressions over axes, symbols and loaded indices. An axis counts from 0 to its
// extent - 1. All functions are pure.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

// Replaces each floordiv and mod of `e` whose value follows from the extents: if the
// extent of axis 1 is 4, i1 // 4 is 0 and i1 mod 4 is i1. extents[k] belongs to axis k.
SymExpr SimplifyIndex(const SymExpr& e, absl::Span<const SymExpr> extents,
                      const ShapeEnv& shapes);

// offset + the sum of coefficient * axis. The offset and the coefficients contain only
// symbols, no coefficient is 0, and axes ascend.
struct LinearForm {
  SymExpr offset = 0;
  absl::InlinedVector<std::pair<uint32_t, SymExpr>, 4> terms;

  // 0 if it does not depend on the axis.
  SymExpr CoefficientOf(uint32_t axis) const;
  friend bool operator==(const LinearForm& a, const LinearForm& b) {
    return a.offset == b.offset && a.terms == b.terms;
  }
};

// None if `e` is not linear in its axes or contains a loaded index.
std::optional<LinearForm> AsLinear(const SymExpr& e);

// An element's address: index[d] * strides[d], summed.
SymExpr ElementAt(const DimVector& index, const DimVector& strides);

// The linear form of an element's address.
std::optional<LinearForm> AddressOf(const DimVector& index,
                                    const DimVector& strides);

// The same of an index that need not be linear itself: that of a view that joined
// dimensions is i // 8 and i mod 8, its address 192*(i // 8) + 24*(i mod 8) = 24*i.
std::optional<LinearForm> AddressOf(const DimVector& index,
                                    const DimVector& strides,
                                    absl::Span<const SymExpr> extents,
                                    const ShapeEnv& shapes);

// Translates the index `from_index` (one expression per dimension) of a tensor with sizes
// `from` to the index of the same element in a view with sizes `to`; both are row-major.
// Dimensions are matched in the smallest possible groups, so that splitting or joining
// neighbours costs at most one division.
DimVector ReshapeIndex(const DimVector& from_index, const DimVector& from,
                       const DimVector& to, const ShapeEnv& shapes);

// Whether `e` depends on axis `first` or a later one.
bool DependsOnAxesFrom(const SymExpr& e, uint32_t first);
bool HasIndirect(const SymExpr& e);

// a / b if that is known to be an integer for all values of the symbols.
std::optional<SymExpr> ExactQuotient(const SymExpr& a, const SymExpr& b);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_INDEX_EXPR_H_
