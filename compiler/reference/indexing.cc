// Places that are data: gather, scatter and advanced indexing.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

// The index of "self" that element `k` of `picker`, at `index`, stands for. A
// 0-d tensor counts as one of one element.
Sizes Picked(const Elements& picker, int64_t k, const Sizes& index, int64_t dim,
             const Sizes& self) {
  if (self.empty()) return {};
  Sizes at = index;
  at.resize(self.size(), 0);
  at[dim] = picker.I(k);
  return at;
}

bool Inside(const Sizes& at, const Sizes& sizes) {
  for (size_t d = 0; d < at.size(); ++d) {
    if (at[d] < 0 || at[d] >= sizes[d]) return false;
  }
  return true;
}

void Set(Elements& y, int64_t to, double f, int64_t i) {
  if (y.floating) {
    y.f[to] = f;
  } else {
    y.i[to] = i;
  }
}

RefResults Gather(RefCall& call) {
  const Elements x = call.Load("self"), picker = call.Load("index");
  const int64_t dim = WrapDim(call.Int("dim"), x.sizes.size());
  Elements y = x.Like(picker.sizes);
  int64_t k = 0;
  ForEachIndex(picker.sizes, [&](const Sizes& index) {
    const Sizes at = Picked(picker, k, index, dim, x.sizes);
    if (!Inside(at, x.sizes)) {
      call.Fail("an index is out of range");
    } else {
      const int64_t from = FlatIndex(x.sizes, at);
      Set(y, k, x.F(from), x.I(from));
    }
    ++k;
  });
  return {call.Make(0, y)};
}

RefResults IndexSelect(RefCall& call) {
  const Elements x = call.Load("self"), picker = call.Load("index");
  const int64_t dim = WrapDim(call.Int("dim"), x.sizes.size());
  const Sizes& sizes = call.result(0).sizes;
  Elements y = x.Like(sizes);
  int64_t k = 0;
  ForEachIndex(sizes, [&](const Sizes& index) {
    Sizes at = index;
    if (!at.empty()) at[dim] = picker.I(index[dim]);
    const int64_t from = FlatIndex(x.sizes, at);
    Set(y, k++, x.F(from), x.I(from));
  });
  return {call.Make(0, y)};
}

// self with fn(old, new, first) at each place the index names.
template <auto fn>
RefResults ScatterWith(RefCall& call, const Elements& source,
                       bool include_self) {
  Elements y = call.Load("self");
  const Elements picker = call.Load("index");
  const int64_t dim = WrapDim(call.Int("dim"), y.sizes.size());
  std::vector<bool> touched(y.count(), include_self);
  int64_t k = 0;
  ForEachIndex(picker.sizes, [&](const Sizes& index) {
    const Sizes at = Picked(picker, k++, index, dim, y.sizes);
    if (!Inside(at, y.sizes)) return call.Fail("an index is out of range");
    const int64_t to = FlatIndex(y.sizes, at);
    const int64_t from = source.sizes.size() != index.size()
                             ? 0
                             : FlatIndex(source.sizes, index);
    if (y.floating) {
      y.f[to] = touched[to] ? fn(y.f[to], source.F(from)) : source.F(from);
    } else {
      y.i[to] = touched[to] ? fn(y.i[to], source.I(from)) : source.I(from);
    }
    touched[to] = true;
  });
  return {call.Make(0, y)};
}

constexpr auto kLast = [](auto, auto b) { return b; };
constexpr auto kPlus = [](auto a, auto b) { return a + b; };
constexpr auto kTimes = [](auto a, auto b) { return a * b; };
constexpr auto kLargest = [](auto a, auto b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
};
constexpr auto kSmallest = [](auto a, auto b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
};

RefResults ScatterSrc(RefCall& call) {
  return ScatterWith<kLast>(call, call.Load("src"), true);
}
RefResults ScatterValue(RefCall& call) {
  return ScatterWith<kLast>(call, call.Load("value"), true);
}
RefResults ScatterAdd(RefCall& call) {
  return ScatterWith<kPlus>(call, call.Load("src"), true);
}

// The mean: sums, divided by how many went in; integers round down.
RefResults ScatterMean(RefCall& call, bool include_self) {
  const RefResults sums =
      ScatterWith<kPlus>(call, call.Load("src"), include_self);
  Elements y = Load(sums[0]);
  const Elements picker = call.Load("index");
  const int64_t dim = WrapDim(call.Int("dim"), y.sizes.size());
  std::vector<int64_t> counts(y.count(), include_self ? 1 : 0);
  int64_t k = 0;
  ForEachIndex(picker.sizes, [&](const Sizes& index) {
    ++counts[FlatIndex(y.sizes, Picked(picker, k++, index, dim, y.sizes))];
  });
  for (int64_t at = 0; at < y.count(); ++at) {
    const int64_t n = std::max<int64_t>(counts[at], 1);
    if (y.floating) {
      y.f[at] /= static_cast<double>(n);
    } else {
      y.i[at] = static_cast<int64_t>(
          std::floor(static_cast<double>(y.i[at]) / static_cast<double>(n)));
    }
  }
  return {call.Make(0, y)};
}

RefResults ScatterReduce(RefCall& call) {
  const std::string reduce = call.String("reduce");
  const bool self = call.Bool("include_self");
  if (reduce == "mean") return ScatterMean(call, self);
  const Elements source = call.Load("src");
  if (reduce == "prod") return ScatterWith<kTimes>(call, source, self);
  if (reduce == "amax") return ScatterWith<kLargest>(call, source, self);
  if (reduce == "amin") return ScatterWith<kSmallest>(call, source, self);
  return ScatterWith<kPlus>(call, source, self);
}

// Which element of "self" each element of an advanced index stands for.
// `sizes`: of the indexed result.
struct Places {
  Sizes sizes;
  std::vector<int64_t> from;
};

// A bool index stands for the integer indices of its true elements.
std::vector<RefTensor> ExpandMasks(const std::vector<RefTensor>& indices) {
  std::vector<RefTensor> expanded;
  for (const RefTensor& t : indices) {
    if (!t.defined() || t.dtype != DType::kBool) {
      expanded.push_back(t);
      continue;
    }
    const Elements mask = Load(t);
    std::vector<Sizes> columns(t.rank());
    int64_t k = 0;
    ForEachIndex(mask.sizes, [&](const Sizes& index) {
      if (!mask.B(k++)) return;
      for (size_t d = 0; d < index.size(); ++d) columns[d].push_back(index[d]);
    });
    for (const Sizes& column : columns) {
      RefTensor places = RefTensor::Zeros(
          DType::kInt64, {static_cast<int64_t>(column.size())});
      Elements e = Elements::Ints(places.sizes);
      e.i = column;
      Store(e, places);
      expanded.push_back(places);
    }
  }
  return expanded;
}

Places PlacesOf(const Sizes& self, std::vector<RefTensor> indices) {
  indices = ExpandMasks(indices);
  indices.resize(self.size());
  Sizes common;
  int first = -1, last = -1, used = 0;
  for (size_t d = 0; d < self.size(); ++d) {
    if (!indices[d].defined()) continue;
    common = BroadcastSizes(common, indices[d].sizes);
    if (first < 0) first = static_cast<int>(d);
    last = static_cast<int>(d);
    ++used;
  }
  // Indices that stand side by side keep their place, else they go in front.
  const bool together = used > 0 && last - first + 1 == used;
  const size_t front = together ? static_cast<size_t>(first) : 0;
  Places places;
  for (size_t d = 0; d < self.size(); ++d) {
    if (places.sizes.size() == front && used > 0 &&
        (together ? d == front : d == 0)) {
      places.sizes.insert(places.sizes.end(), common.begin(), common.end());
    }
    if (!indices[d].defined()) places.sizes.push_back(self[d]);
  }
  std::vector<Elements> picks(self.size());
  for (size_t d = 0; d < self.size(); ++d) {
    if (indices[d].defined()) picks[d] = Load(indices[d]).Broadcast(common);
  }
  ForEachIndex(places.sizes, [&](const Sizes& index) {
    const Sizes in_common(index.begin() + front,
                          index.begin() + front + common.size());
    const int64_t pick = FlatIndex(common, in_common);
    Sizes at(self.size());
    size_t next = 0;
    for (size_t d = 0; d < self.size(); ++d) {
      if (indices[d].defined()) {
        at[d] = picks[d].I(pick);
        if (at[d] < 0) at[d] += self[d];
        continue;
      }
      if (next == front) next += common.size();
      at[d] = index[next++];
    }
    places.from.push_back(Inside(at, self) ? FlatIndex(self, at) : -1);
  });
  return places;
}

RefResults Index(RefCall& call) {
  const Elements x = call.Load("self");
  const Places places = PlacesOf(x.sizes, call.Tensors("indices"));
  Elements y = x.Like(places.sizes);
  for (size_t k = 0; k < places.from.size(); ++k) {
    if (places.from[k] < 0) {
      call.Fail("an index is out of range");
      break;
    }
    Set(y, k, x.F(places.from[k]), x.I(places.from[k]));
  }
  return {call.Make(0, y)};
}

RefResults IndexPut(RefCall& call) {
  Elements y = call.Load("self");
  const Places places = PlacesOf(y.sizes, call.Tensors("indices"));
  const Elements values = call.Load("values").Broadcast(places.sizes);
  const bool add = call.Bool("accumulate");
  for (size_t k = 0; k < places.from.size(); ++k) {
    const int64_t to = places.from[k];
    if (to < 0) {
      call.Fail("an index is out of range");
      break;
    }
    if (y.floating) {
      y.f[to] = (add ? y.f[to] : 0) + values.F(k);
    } else {
      y.i[to] = (add ? y.i[to] : 0) + values.I(k);
    }
  }
  return {call.Make(0, y)};
}

// self with `alpha * source`'s slices added (or set) at places of one dim.
template <bool add>
RefResults IndexInto(RefCall& call) {
  Elements y = call.Load("self");
  const Elements picker = call.Load("index"), source = call.Load("source");
  const int64_t dim = WrapDim(call.Int("dim"), y.sizes.size());
  const double alpha = call.Has("alpha") ? call.Float("alpha") : 1;
  int64_t k = 0;
  ForEachIndex(source.sizes, [&](const Sizes& index) {
    Sizes at = index;
    if (!at.empty() && !y.sizes.empty()) at[dim] = picker.I(index[dim]);
    const int64_t to = y.sizes.empty() ? 0 : FlatIndex(y.sizes, at);
    if (y.floating) {
      y.f[to] = (add ? y.f[to] : 0) + alpha * source.F(k);
    } else {
      y.i[to] = (add ? y.i[to] : 0) + static_cast<int64_t>(alpha) * source.I(k);
    }
    ++k;
  });
  return {call.Make(0, y)};
}

// self with `value` at the places of one dim.
RefResults IndexFill(RefCall& call) {
  Elements y = call.Load("self");
  const Elements picker = call.Load("index");
  const RefNumber value = call.Number("value");
  const int64_t dim = WrapDim(call.Int("dim"), y.sizes.size());
  int64_t k = 0;
  ForEachIndex(y.sizes, [&](const Sizes& index) {
    for (int64_t p = 0; p < picker.count(); ++p) {
      int64_t place = picker.I(p);
      if (!index.empty() && place < 0) place += y.sizes[dim];
      if (index.empty() || index[dim] == place) Set(y, k, value.F(), value.i);
    }
    ++k;
  });
  return {call.Make(0, y)};
}

constexpr ReferenceRow kRows[] = {
    {"aten.index_fill.int_Scalar", IndexFill},
    {"aten.index_fill.int_Tensor", IndexFill},
    {"aten.gather.default", Gather},
    {"aten.index_select.default", IndexSelect},
    {"aten.scatter.src", ScatterSrc},
    {"aten.scatter.value", ScatterValue},
    {"aten.scatter_add.default", ScatterAdd},
    {"aten.scatter_reduce.two", ScatterReduce},
    {"aten.index.Tensor", Index},
    {"aten._unsafe_index.Tensor", Index},
    {"aten.index_put.default", IndexPut},
    {"aten._unsafe_index_put.default", IndexPut},
    {"aten.index_add.default", IndexInto<true>},
    {"aten.index_copy.default", IndexInto<false>},
};

}  // namespace

absl::Span<const ReferenceRow> IndexingReferences() { return kRows; }

}  // namespace kiln
