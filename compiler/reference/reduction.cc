// Many elements to one. Sums are in double; integer sums in int64, wrapping.

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

bool Keepdim(RefCall& call) {
  return call.Has("keepdim") && call.Bool("keepdim");
}

// The groups of the named dims (all when the operator has no such parameter).
Rows RowsOf(RefCall& call, const Elements& x) {
  const int64_t rank = static_cast<int64_t>(x.sizes.size());
  return CutIntoRows(x.sizes, ReducedDims(call, "dim", rank));
}

// One number from each group, in double.
RefResults FloatReduction(
    RefCall& call,
    const std::function<double(const std::vector<double>&)>& fn) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  Elements y = Elements::Floats(rows.ResultSizes(Keepdim(call)));
  for (size_t r = 0; r < rows.members.size(); ++r) {
    std::vector<double> group;
    for (int64_t k : rows.members[r]) group.push_back(x.F(k));
    y.f[r] = fn(group);
  }
  return {call.Make(0, y)};
}

// Folds each group with `fn` from `start`, in double or in int64 by the dtype of
// the result.
template <auto fn>
RefResults Fold(RefCall& call, int64_t start) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  const Sizes& sizes = rows.ResultSizes(Keepdim(call));
  const bool floating = IsFloat(call.result(0).dtype);
  // Reducing into an integer first converts to it.
  const bool to_bool = call.result(0).dtype == DType::kBool;
  Elements y =
      floating ? Elements::Floats(sizes, start) : Elements::Ints(sizes, start);
  for (size_t r = 0; r < rows.members.size(); ++r) {
    for (int64_t k : rows.members[r]) {
      if (floating) {
        y.f[r] = fn(y.f[r], x.F(k));
      } else {
        y.i[r] = fn(y.i[r], to_bool ? int64_t{x.B(k)} : x.I(k));
      }
    }
  }
  return {call.Make(0, y)};
}

constexpr auto kPlus = [](auto a, auto b) { return a + b; };
constexpr auto kTimes = [](auto a, auto b) { return a * b; };

RefResults Sum(RefCall& call) { return Fold<kPlus>(call, 0); }
RefResults Prod(RefCall& call) { return Fold<kTimes>(call, 1); }

RefResults Nansum(RefCall& call) {
  return Fold<[](auto a, auto b) { return b != b ? a : a + b; }>(call, 0);
}

RefResults Mean(RefCall& call) {
  return FloatReduction(call, [](const std::vector<double>& group) {
    double sum = 0;
    for (double v : group) sum += v;
    return sum / static_cast<double>(group.size());
  });
}

RefResults Any(RefCall& call) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  Elements y = Elements::Ints(rows.ResultSizes(Keepdim(call)));
  for (size_t r = 0; r < rows.members.size(); ++r) {
    for (int64_t k : rows.members[r]) y.i[r] = y.i[r] || x.B(k);
  }
  return {call.Make(0, y)};
}

RefResults All(RefCall& call) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  Elements y = Elements::Ints(rows.ResultSizes(Keepdim(call)), 1);
  for (size_t r = 0; r < rows.members.size(); ++r) {
    for (int64_t k : rows.members[r]) y.i[r] = y.i[r] && x.B(k);
  }
  return {call.Make(0, y)};
}

// Whether element a of x is preferred to b, which came first. NaN wins over
// all; the first of equals stays.
template <bool largest>
bool Better(const Elements& x, int64_t a, int64_t b) {
  if (!x.floating) return largest ? x.i[a] > x.i[b] : x.i[a] < x.i[b];
  if (std::isnan(x.f[b])) return false;
  if (std::isnan(x.f[a])) return true;
  return largest ? x.f[a] > x.f[b] : x.f[a] < x.f[b];
}

// Which member of each group is the largest, or smallest: its place. A group
// without members fails the call.
template <bool largest>
std::vector<int64_t> BestPlaces(RefCall& call, const Elements& x,
                                const Rows& rows) {
  std::vector<int64_t> places;
  for (const std::vector<int64_t>& members : rows.members) {
    if (members.empty()) call.Fail("no elements to choose from");
    size_t best = 0;
    for (size_t m = 1; m < members.size(); ++m) {
      if (Better<largest>(x, members[m], members[best])) best = m;
    }
    places.push_back(static_cast<int64_t>(best));
  }
  return places;
}

Elements Pick(const Elements& x, const Rows& rows,
              const std::vector<int64_t>& places, const Sizes& sizes) {
  Elements y = x.Like(sizes);
  for (size_t r = 0; r < rows.members.size(); ++r) {
    if (rows.members[r].empty()) continue;
    const int64_t from = rows.members[r][places[r]];
    y.Take(r, x, from);
  }
  return y;
}

template <bool largest>
RefResults Extreme(RefCall& call) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  return {call.Make(0, Pick(x, rows, BestPlaces<largest>(call, x, rows),
                            rows.ResultSizes(Keepdim(call))))};
}

template <bool largest>
RefResults ExtremeWithIndex(RefCall& call) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  const Sizes& sizes = rows.ResultSizes(Keepdim(call));
  Elements places = Elements::Ints(sizes);
  places.i = BestPlaces<largest>(call, x, rows);
  return {call.Make(0, Pick(x, rows, places.i, sizes)), call.Make(1, places)};
}

template <bool largest>
RefResults ArgExtreme(RefCall& call) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  Elements places = Elements::Ints(rows.ResultSizes(Keepdim(call)));
  places.i = BestPlaces<largest>(call, x, rows);
  return {call.Make(0, places)};
}

RefResults Aminmax(RefCall& call) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  const Sizes& sizes = rows.ResultSizes(Keepdim(call));
  return {call.Make(0, Pick(x, rows, BestPlaces<false>(call, x, rows), sizes)),
          call.Make(1, Pick(x, rows, BestPlaces<true>(call, x, rows), sizes))};
}

// "correction" (a number; absent: 1), or the older "unbiased".
double Correction(RefCall& call) {
  if (call.Has("unbiased")) return call.Bool("unbiased") ? 1 : 0;
  return call.Has("correction") ? call.Float("correction") : 1;
}

double MeanOf(const std::vector<double>& group) {
  double sum = 0;
  for (double v : group) sum += v;
  return sum / static_cast<double>(group.size());
}

double VarianceOf(const std::vector<double>& group, double correction) {
  const double mean = MeanOf(group);
  double squares = 0;
  for (double v : group) squares += (v - mean) * (v - mean);
  const double n = static_cast<double>(group.size()) - correction;
  return squares / std::fmax(n, 0);
}

RefResults Var(RefCall& call) {
  const double correction = Correction(call);
  return FloatReduction(call, [&](const std::vector<double>& group) {
    return VarianceOf(group, correction);
  });
}

RefResults Std(RefCall& call) {
  const double correction = Correction(call);
  return FloatReduction(call, [&](const std::vector<double>& group) {
    return std::sqrt(VarianceOf(group, correction));
  });
}

RefResults SecondResult(RefCall& call, RefResults first) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  Elements means = Elements::Floats(rows.ResultSizes(Keepdim(call)));
  for (size_t r = 0; r < rows.members.size(); ++r) {
    std::vector<double> group;
    for (int64_t k : rows.members[r]) group.push_back(x.F(k));
    means.f[r] = MeanOf(group);
  }
  first.push_back(call.Make(1, means));
  return first;
}
RefResults VarMean(RefCall& call) { return SecondResult(call, Var(call)); }
RefResults StdMean(RefCall& call) { return SecondResult(call, Std(call)); }

RefResults Logsumexp(RefCall& call) {
  return FloatReduction(call, [](const std::vector<double>& group) {
    double top = -INFINITY;
    for (double v : group) top = std::fmax(top, v);
    if (std::isinf(top)) top = 0;
    double sum = 0;
    for (double v : group) sum += std::exp(v - top);
    return top + std::log(sum);
  });
}

double NormOf(const std::vector<double>& group, double p) {
  double result = p < 0 ? INFINITY : 0;
  for (double v : group) {
    const double a = std::fabs(v);
    if (std::isnan(a)) return a;
    if (p == INFINITY) {
      result = std::fmax(result, a);
    } else if (p == -INFINITY) {
      result = std::fmin(result, a);
    } else if (p == 0) {
      result += a != 0;
    } else {
      result = (std::isinf(result) && p < 0 ? 0 : result) + std::pow(a, p);
    }
  }
  if (std::isinf(p) || p == 0) return result;
  return std::pow(result, 1 / p);
}

RefResults VectorNorm(RefCall& call) {
  const double p = call.Has("ord") ? call.Float("ord") : 2;
  return FloatReduction(
      call, [p](const std::vector<double>& g) { return NormOf(g, p); });
}

RefResults Norms(RefCall& call) {
  const double p = call.Has("ord") ? call.Float("ord") : 2;
  RefResults results;
  for (const RefTensor& member : call.Tensors("self")) {
    Elements y = Elements::Floats({});
    y.f[0] = NormOf(Load(member).AsFloats().f, p);
    results.push_back(call.Make(static_cast<int>(results.size()), y));
  }
  return results;
}

RefResults NormP(RefCall& call) {
  const double p = call.Has("p") ? call.Float("p") : 2;
  return FloatReduction(
      call, [p](const std::vector<double>& g) { return NormOf(g, p); });
}

RefResults CountNonzero(RefCall& call) {
  const Elements x = call.Load("self");
  const Rows rows = RowsOf(call, x);
  Elements y = Elements::Ints(rows.dropped);
  for (size_t r = 0; r < rows.members.size(); ++r) {
    for (int64_t k : rows.members[r]) y.i[r] += x.B(k);
  }
  return {call.Make(0, y)};
}

constexpr ReferenceRow kRows[] = {
    {"aten.sum.default", Sum},
    {"aten.sum.dim_IntList", Sum},
    {"aten.nansum.default", Nansum},
    {"aten.prod.default", Prod},
    {"aten.prod.dim_int", Prod},
    {"aten.mean.default", Mean},
    {"aten.mean.dim", Mean},
    {"aten.any.default", Any},
    {"aten.any.dim", Any},
    {"aten.any.dims", Any},
    {"aten.all.default", All},
    {"aten.all.dim", All},
    {"aten.all.dims", All},
    {"aten.amax.default", Extreme<true>},
    {"aten.amin.default", Extreme<false>},
    {"aten.max.default", Extreme<true>},
    {"aten.min.default", Extreme<false>},
    {"aten.max.dim", ExtremeWithIndex<true>},
    {"aten.min.dim", ExtremeWithIndex<false>},
    {"aten.argmax.default", ArgExtreme<true>},
    {"aten.argmin.default", ArgExtreme<false>},
    {"aten.aminmax.default", Aminmax},
    {"aten.var.default", Var},
    {"aten.var.dim", Var},
    {"aten.var.correction", Var},
    {"aten.std.default", Std},
    {"aten.std.dim", Std},
    {"aten.std.correction", Std},
    {"aten.var_mean.default", VarMean},
    {"aten.var_mean.dim", VarMean},
    {"aten.var_mean.correction", VarMean},
    {"aten.std_mean.correction", StdMean},
    {"aten.logsumexp.default", Logsumexp},
    {"aten.linalg_vector_norm.default", VectorNorm},
    {"aten._foreach_norm.Scalar", Norms},
    {"aten.norm.ScalarOpt_dim", NormP},
    {"aten.norm.ScalarOpt_dim_dtype", NormP},
    {"aten.norm.Scalar", NormP},
    {"aten.count_nonzero.default", CountNonzero},
    {"aten.count_nonzero.dim_IntList", CountNonzero},
};

}  // namespace

absl::Span<const ReferenceRow> ReductionReferences() { return kRows; }

}  // namespace kiln
