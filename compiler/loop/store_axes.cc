#include "compiler/loop/store_axes.h"

#include <algorithm>

#include "compiler/loop/index_expr.h"

namespace kiln {

std::optional<std::vector<SymExpr>> AxesAt(const LoopNest& nest,
                                           const Store& store,
                                           const Buffer& buffer,
                                           const DimVector& index) {
  std::vector<SymExpr> values(nest.axes.size(), 0);
  size_t found = 0;
  for (size_t d = 0; d < store.index.size(); ++d) {
    auto form = AsLinear(store.index[d]);
    if (!form.has_value() || !form->offset.Is(0)) return std::nullopt;
    // Terms from the innermost on: each weight must be the product of the extents of the
    // terms before it.
    auto& terms = form->terms;
    SymExpr weight = 1;
    for (size_t n = terms.size(); n > 0; --n) {
      const auto at =
          std::find_if(terms.begin(), terms.end(),
                       [&](const auto& term) { return term.second == weight; });
      if (at == terms.end()) return std::nullopt;
      const uint32_t axis = at->first;
      const SymExpr& extent = nest.axes[axis].extent;
      SymExpr digit = weight.Is(1) ? index[d] : FloorDiv(index[d], weight);
      weight *= extent;
      if (!(weight == buffer.sizes[d])) digit = Mod(digit, extent);
      values[axis] = digit;
      terms.erase(at);
      ++found;
    }
    if (!(weight == buffer.sizes[d])) return std::nullopt;
  }
  if (found != nest.axes.size()) return std::nullopt;
  return values;
}

}  // namespace kiln
