// Scans along a dimension, and sorting.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"
#include "compiler/reference/special_functions.h"

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
      y.Take(k, x, from);
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
  Elements y = x.Like(sizes);
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
      y.Take(to, x, from);
    }
  }
  return {call.Make(0, y), call.Make(1, places)};
}

// prims.order: what the CPU's library gives, by the same algorithms of the
// standard library and so with the same choice among equals; but for "kth",
// where the first of equals is taken.
std::vector<int64_t> Arranged(const Elements& x, const int64_t* row,
                              int64_t length, RefCall& call) {
  const std::string how = call.String("how");
  const int64_t count = call.Int("count");
  const bool largest = call.Bool("largest");
  std::vector<int64_t> order(length);
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int64_t a, int64_t b) {
    return Before(x, row[a], row[b], largest);
  };
  const auto first = order.begin();
  if (how == "top" || how == "top_unsorted") {
    if (count == 0) return order;
    if (count * 64 <= length) {
      std::partial_sort(first, first + count, order.end(), before);
    } else {
      std::nth_element(first, first + count - 1, order.end(), before);
      if (how == "top") std::sort(first, first + count - 1, before);
    }
    return order;
  }
  const auto is_nan = [&](int64_t i) {
    return x.floating && std::isnan(x.f[row[i]]);
  };
  const int64_t nans = std::count_if(first, order.end(), is_nan);
  if (how == "median" && nans > 0)
    return {*std::find_if(first, order.end(), is_nan)};
  if (how == "median" || how == "nanmedian") {
    const int64_t middle = std::max<int64_t>(length - nans - 1, 0) / 2;
    std::nth_element(first, first + middle, order.end(), before);
    return {order[middle]};
  }
  std::stable_sort(first, order.end(), before);
  return how == "kth" ? std::vector<int64_t>{order[call.Int("k")]} : order;
}

// Where the first values of each row of x stand.
Elements FirstPlaces(RefCall& call, const Elements& x) {
  const Rows rows = CutAlong(x.sizes, 1);
  const int64_t count = call.Int("count");
  const bool largest = call.Bool("largest");
  Elements places = Elements::Ints({x.sizes[0], count});
  for (size_t r = 0; r < rows.members.size(); ++r) {
    const std::vector<int64_t>& row = rows.members[r];
    std::vector<int64_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return Before(x, row[a], row[b], largest);
    });
    for (int64_t c = 0; c < count; ++c)
      places.i[static_cast<int64_t>(r) * count + c] = order[c];
  }
  return places;
}

// prims.sort_rows
RefResults SortRows(RefCall& call) {
  return {call.Make(0, FirstPlaces(call, call.Load("x")))};
}

// prims.sort_values: the values first.
RefResults SortValues(RefCall& call) {
  const Elements x = call.Load("x");
  const Elements places = FirstPlaces(call, x);
  Elements y = x.Like(places.sizes);
  for (int64_t k = 0; k < y.count(); ++k)
    y.Take(k, x, k / places.sizes[1] * x.sizes[1] + places.i[k]);
  return {call.Make(0, y), call.Make(1, places)};
}

RefResults OrderRows(RefCall& call) {
  const Elements x = call.Load("x");
  const Rows rows = CutAlong(x.sizes, 1);
  const int64_t count = call.Int("count");
  const Sizes sizes = {x.sizes[0], count};
  Elements y = x.Like(sizes);
  Elements places = Elements::Ints(sizes);
  for (size_t r = 0; r < rows.members.size(); ++r) {
    const std::vector<int64_t>& members = rows.members[r];
    const std::vector<int64_t> order =
        Arranged(x, members.data(), members.size(), call);
    for (int64_t c = 0; c < count; ++c) {
      const int64_t to = r * count + c;
      places.i[to] = order[c];
      y.Take(to, x, members[order[c]]);
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

// The element at `place` of a row in ascending order, and where it stood.
using PlaceFn = int64_t (*)(const Elements& x,
                            const std::vector<int64_t>& members, RefCall& call);

RefResults Selected(RefCall& call, const Elements& x,
                    const std::vector<std::vector<int64_t>>& rows,
                    PlaceFn place) {
  Elements y = x.Like(call.result(0).sizes);
  Elements places = Elements::Ints(call.result(0).sizes);
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<int64_t> order(rows[r].size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return Before(x, rows[r][a], rows[r][b], false);
    });
    places.i[r] = order[place(x, rows[r], call)];
    const int64_t from = rows[r][places.i[r]];
    y.Take(r, x, from);
  }
  RefResults results = {call.Make(0, y)};
  if (call.num_results() > 1) results.push_back(call.Make(1, places));
  return results;
}

RefResults KthValue(RefCall& call) {
  const Elements x = call.Load("self");
  return Selected(call, x, CutAlong(x.sizes, call.Int("dim")).members,
                  [](const Elements&, const std::vector<int64_t>&, RefCall& c) {
                    return c.Int("k") - 1;
                  });
}

// The lower middle of a row; of one with NaN the first NaN, unless ignored.
template <bool ignore_nan>
int64_t MiddleOf(const Elements& x, const std::vector<int64_t>& members,
                 RefCall&) {
  const auto count = static_cast<int64_t>(members.size());
  int64_t numbers = 0;
  for (int64_t k : members) numbers += !std::isnan(x.F(k));
  if (ignore_nan) return numbers == 0 ? 0 : (numbers - 1) / 2;
  return numbers < count ? numbers : (count - 1) / 2;
}

template <bool ignore_nan>
RefResults MedianDim(RefCall& call) {
  const Elements x = call.Load("self");
  return Selected(call, x, CutAlong(x.sizes, call.Int("dim")).members,
                  MiddleOf<ignore_nan>);
}

template <bool ignore_nan>
RefResults Median(RefCall& call) {
  const Elements x = call.Load("self");
  std::vector<int64_t> all(x.count());
  std::iota(all.begin(), all.end(), 0);
  return Selected(call, x, {all}, MiddleOf<ignore_nan>);
}

// The place, in ascending order, at which the longest run of equals ends.
int64_t LongestRun(const Elements& x, const std::vector<int64_t>& members,
                   RefCall&) {
  std::vector<double> row;
  for (int64_t k : members) row.push_back(x.F(k));
  std::sort(row.begin(), row.end(), [](double a, double b) {
    return std::isnan(b) ? !std::isnan(a) : a < b;
  });
  int64_t best = 0, longest = 0, length = 0;
  for (size_t k = 0; k < row.size(); ++k) {
    length = k > 0 && row[k] == row[k - 1] ? length + 1 : 1;
    if (length > longest) {
      longest = length;
      best = static_cast<int64_t>(k);
    }
  }
  return best;
}

RefResults Mode(RefCall& call) {
  const Elements x = call.Load("self");
  return Selected(call, x, CutAlong(x.sizes, call.Int("dim")).members,
                  LongestRun);
}

// Where each value would be put into its row so that it stays in order.
RefResults Searched(RefCall& call, const Elements& sorted,
                    const std::vector<int64_t>& order, const Elements& values,
                    bool right) {
  Elements places = Elements::Ints(values.sizes);
  const int64_t width = sorted.sizes.back();
  const int64_t each = sorted.sizes.size() == 1 || values.sizes.empty()
                           ? values.count()
                           : values.sizes.back();
  for (int64_t k = 0; k < values.count(); ++k) {
    const int64_t row = each == 0 ? 0 : k / each * width;
    const double v = values.F(k);
    int64_t p = 0;
    const auto before = [&](double bound) {
      return right ? !(bound > v) : !(bound >= v);
    };
    while (p < width && before(sorted.F(row + order[row + p]))) ++p;
    places.i[k] = p;
  }
  return {call.Make(0, places)};
}

RefResults SearchSorted(RefCall& call) {
  const Elements sorted = call.Load("sorted_sequence");
  std::vector<int64_t> order(sorted.count());
  for (int64_t k = 0; k < sorted.count(); ++k)
    order[k] = k % sorted.sizes.back();
  if (call.Has("sorter")) order = call.Load("sorter").i;
  const bool right = call.Bool("right") ||
                     (call.Has("side") && call.String("side") == "right");
  return Searched(call, sorted, order, call.Load("self"), right);
}

RefResults Bucketize(RefCall& call) {
  const Elements bounds = call.Load("boundaries");
  std::vector<int64_t> order(bounds.count());
  std::iota(order.begin(), order.end(), 0);
  return Searched(call, bounds, order, call.Load("self"), call.Bool("right"));
}

constexpr ReferenceRow kRows[] = {
    {"aten.kthvalue.default", KthValue},
    {"aten.mode.default", Mode},
    {"aten.median.default", Median<false>},
    {"aten.median.dim", MedianDim<false>},
    {"aten.nanmedian.default", Median<true>},
    {"aten.nanmedian.dim", MedianDim<true>},
    {"aten.searchsorted.Tensor", SearchSorted},
    {"aten.searchsorted.Scalar", SearchSorted},
    {"aten.bucketize.Tensor", Bucketize},
    {"aten.bucketize.Scalar", Bucketize},
    {"aten.cumsum.default", Scan<[](auto a, auto b) { return a + b; }>},
    {"aten.cumprod.default", Scan<[](auto a, auto b) { return a * b; }>},
    {"aten.logcumsumexp.default", Scan<LogAddExp>},
    {"aten.cummax.default", RunningExtreme<true>},
    {"aten.cummin.default", RunningExtreme<false>},
    {"prims.order.default", OrderRows},
    {"prims.sort_rows.default", SortRows},
    {"prims.sort_values.default", SortValues},
    {"aten.sort.default", Sort},
    {"aten.sort.stable", Sort},
    {"aten.topk.default", Topk},
};

}  // namespace

absl::Span<const ReferenceRow> OrderReferences() { return kRows; }

}  // namespace kiln
