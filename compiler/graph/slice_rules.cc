#include "compiler/graph/slice_rules.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

SymExpr Clamped(SymExpr bound, const SymExpr& size, ShapeEnv& shapes) {
  if (bound == size) return bound;
  // Anything this large is "the end", whatever the size.
  if (bound.is_constant() && bound.constant() >= ValueRange::kMax) return size;
  if (shapes.DecideLt(bound, 0, "slice")) {
    bound += size;
    if (shapes.DecideLt(bound, 0, "slice")) return 0;
  }
  return shapes.DecideLt(size, bound, "slice") ? size : bound;
}

}  // namespace

absl::StatusOr<SliceBounds> BoundsOfSlice(const Argument& start,
                                          const Argument& end,
                                          const Argument& step,
                                          const SymExpr& size,
                                          ShapeEnv& shapes) {
  SliceBounds bounds;
  bounds.step = step.is_none() ? SymExpr(1) : step.sym();
  if (shapes.DecideLt(bounds.step, 1, "slice")) {
    return Malformed(
        absl::StrCat("step ", bounds.step.ToString(), ", expected 1 or more"));
  }
  bounds.start =
      start.is_none() ? SymExpr(0) : Clamped(start.sym(), size, shapes);
  const SymExpr last = end.is_none() ? size : Clamped(end.sym(), size, shapes);
  // An end at the start needs no case, and no guard, of its own.
  if (shapes.DecideLt(last, bounds.start, "slice")) {
    bounds.length = 0;
  } else {
    bounds.length = CeilDiv(last - bounds.start, bounds.step);
  }
  return bounds;
}

absl::StatusOr<SymExpr> WrapIndex(const SymExpr& index, const SymExpr& size,
                                  ShapeEnv& shapes) {
  const SymExpr wrapped =
      shapes.DecideLt(index, 0, "select") ? index + size : index;
  if (shapes.DecideLt(wrapped, 0, "select") ||
      !shapes.DecideLt(wrapped, size, "select")) {
    return Malformed(absl::StrCat("index ", index.ToString(),
                                  " of a dimension of ", size.ToString()));
  }
  return wrapped;
}

}  // namespace kiln
