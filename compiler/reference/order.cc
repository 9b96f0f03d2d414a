// Scans along a dimension, and sorting.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

// y[k] = fn(y[k - 1], x[k]) along the dimension.
template <auto fn>
RefResults Scan(RefCall& call) {
  Elements x = call.Load("self");
  x = IsFloat(call.result(0).dtype) ? x.AsFloats() : x.AsInts();
  for (const auto& members : CutAlong(x.sizes, call.Int("dim")).members) {
    for (size_t m = 1; m < members.size(); ++m) {
      const int64_t last = members[m - 1], here = members[m];
      if (x.floating) {
        x.f[here] = fn(x.f[last], x.f[here]);
      } else {
        x.i[here] = fn(x.i[last], x.i[here]);
      }
    }
  }
  return {call.Make(0, x)};
}

double LogAdd(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  const double top = std::fmax(a, b);
  if (std::isinf(top)) return top;
  return top + std::log(std::exp(a - top) + std::exp(b - top));
}

// The running extreme and where it was; the last of equals, NaN for good.
template <bool largest>
RefResults RunningExtreme(RefCall& call) {
  Elements x = call.Load("self");
  Elements places = Elements::Ints(x.sizes);
  for (const auto& members : CutAlong(x.sizes, call.Int("dim")).members) {
    int64_t best = 0;
    for (size_t m = 0; m < members.size(); ++m) {
      const double top = x.F(members[best]), v = x.F(members[m]);
      if (std::isnan(v) ||
          (!std::isnan(top) && (largest ? v >= top : v <= top))) {
        best = static_cast<int64_t>(m);
      }
      places.i[members[m]] = best;
    }
  }
  Elements y = x;
  const auto groups = CutAlong(x.sizes, call.Int("dim")).members;
  for (const auto& members : groups) {
    for (int64_t k : members) {
      const int64_t from = members[places.i[k]];
      if (x.floating) {
        y.f[k] = x.f[from];
      } else {
        y.i[k] = x.i[from];
      }
    }
  }
  return {call.Make(0, y), call.Make(1, places)};
}

// Ascending with NaN last, or descending with NaN first.
bool Before(const Elements& x, int64_t a, int64_t b, bool descending) {
  if (!x.floating) return descending ? x.i[a] > x.i[b] : x.i[a] < x.i[b];
  const double u = x.f[a], v = x.f[b];
  if (descending) return std::isnan(u) ? !std::isnan(v) : u > v;
  return std::isnan(v) ? !std::isnan(u) : u < v;
}

// The first `count` of each group in order, with their places.
RefResults Ordered(RefCall& call, int64_t dim, int64_t count, bool descending) {
  const Elements x = call.Load("self");
  const Rows rows = CutAlong(x.sizes, dim);
  Sizes sizes = x.sizes;
  if (!sizes.empty()) sizes[WrapDim(dim, sizes.size())] = count;
  const Rows target = CutAlong(sizes, dim);
  Elements y = x.floating ? Elements::Floats(sizes) : Elements::Ints(sizes);
  Elements places = Elements::Ints(sizes);
  for (size_t r = 0; r < target.members.size(); ++r) {
    const std::vector<int64_t>& members = rows.members[r];
    std::vector<int64_t> order(members.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return Before(x, members[a], members[b], descending);
    });
    for (size_t m = 0; m < target.members[r].size(); ++m) {
      const int64_t to = target.members[r][m], from = members[order[m]];
      places.i[to] = order[m];
      if (x.floating) {
        y.f[to] = x.f[from];
      } else {
        y.i[to] = x.i[from];
      }
    }
  }
  return {call.Make(0, y), call.Make(1, places)};
}

RefResults Sort(RefCall& call) {
  const RefTensor self = call.Tensor("self");
  const int64_t dim = call.Int("dim");
  const int64_t count =
      self.rank() == 0 ? 1 : self.sizes[WrapDim(dim, self.rank())];
  return Ordered(call, dim, count, call.Bool("descending"));
}

RefResults Topk(RefCall& call) {
  return Ordered(call, call.Int("dim"), call.Int("k"), call.Bool("largest"));
}

constexpr ReferenceRow kRows[] = {
    {"aten.cumsum.default", Scan<[](auto a, auto b) { return a + b; }>},
    {"aten.cumprod.default", Scan<[](auto a, auto b) { return a * b; }>},
    {"aten.logcumsumexp.default", Scan<LogAdd>},
    {"aten.cummax.default", RunningExtreme<true>},
    {"aten.cummin.default", RunningExtreme<false>},
    {"aten.sort.default", Sort},
    {"aten.sort.stable", Sort},
    {"aten.topk.default", Topk},
};

}  // namespace

absl::Span<const ReferenceRow> OrderReferences() { return kRows; }

}  // namespace kiln
