// Means, variances and norms: sums with something before and after.

#include <cmath>
#include <utility>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// "dtype" asks for a type to compute in; else f32, or f64 for f64.
ValueId Source(Decomposition& d, ValueId x) {
  const DType* asked = std::get_if<DType>(&d.Get("dtype").v);
  return d.e.Compute(asked == nullptr ? x : d.e.ToDType(x, *asked));
}

ValueId Source(Decomposition& d) { return Source(d, d.Tensor("self")); }

std::vector<int64_t> DimsOf(Decomposition& d, ValueId x) {
  return d.Dims("dim", d.e.rank(x));
}

Parts Mean(Decomposition& d) {
  const ValueId x = Source(d);
  return {d.e.Mean(x, DimsOf(d, x), d.Keepdim())};
}

struct Moments {
  ValueId variance, mean;  // reduced dims as the node keeps them
};

// Two passes. The divisor n - correction is not below 0.
Moments MomentsOf(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const std::vector<int64_t> dims = DimsOf(d, x);
  const ValueId mean = e.Mean(x, dims, Keep::kYes);
  const ValueId squares = e.Sum(e.Square(e.Sub(x, mean)), dims, d.Keepdim());
  const double correction = d.Has("correction") ? d.Float("correction") : 1.0;
  const SymExpr n = e.Count(x, dims);
  Moments m;
  if (n.is_constant()) {
    const double under = static_cast<double>(n.constant()) - correction;
    m.variance = e.Div(squares, std::fmax(under, 0.0));
  } else {
    m.variance =
        e.Div(squares, Max(n - SymExpr(static_cast<int64_t>(correction)), 0));
  }
  m.mean = d.Keepdim() == Keep::kYes ? mean : e.Squeeze(mean, dims);
  return m;
}

Parts Var(Decomposition& d) { return {MomentsOf(d).variance}; }
Parts Std(Decomposition& d) { return {d.e.Sqrt(MomentsOf(d).variance)}; }
Parts VarMean(Decomposition& d) {
  const Moments m = MomentsOf(d);
  return {m.variance, m.mean};
}
Parts StdMean(Decomposition& d) {
  const Moments m = MomentsOf(d);
  return {d.e.Sqrt(m.variance), m.mean};
}

// (sum |x|^p)^(1/p), with the orders that have a shorter form.
ValueId Norm(Emitter& e, ValueId x, double p, absl::Span<const int64_t> dims,
             Keep keep) {
  if (p == 2) return e.Sqrt(e.Sum(e.Square(x), dims, keep));
  if (p == 0) return e.Sum(e.Compute(e.Ne(x, 0.0)), dims, keep);
  const ValueId a = e.Abs(x);
  if (p == 1) return e.Sum(a, dims, keep);
  if (p == INFINITY) return e.Amax(a, dims, keep);
  if (p == -INFINITY) return e.Amin(a, dims, keep);
  return e.Pow(e.Sum(e.Pow(a, p), dims, keep), 1 / p);
}

Parts VectorNorm(Decomposition& d) {
  const ValueId x = Source(d);
  return {Norm(d.e, x, d.Has("ord") ? d.Float("ord") : 2, DimsOf(d, x),
               d.Keepdim())};
}

// A list's: of all elements of each member.
Parts Norms(Decomposition& d) {
  Parts parts;
  for (const ValueId member : d.Tensors("self")) {
    const ValueId x = Source(d, member);
    parts.push_back(
        Norm(d.e, x, d.Float("ord"), DimRange(0, d.e.rank(x)), Keep::kNo));
  }
  return parts;
}

Parts NormP(Decomposition& d) {
  const ValueId x = Source(d);
  return {
      Norm(d.e, x, d.Has("p") ? d.Float("p") : 2, DimsOf(d, x), d.Keepdim())};
}

// An infinite top is not subtracted: infinity minus itself is NaN.
Parts Logsumexp(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const std::vector<int64_t> dims = DimsOf(d, x);
  const ValueId top = e.Amax(x, dims, Keep::kYes);
  const ValueId shift =
      e.Where(e.Eq(e.Abs(top), static_cast<double>(INFINITY)), 0.0, top);
  const ValueId log = e.Log(e.Sum(e.Exp(e.Sub(x, shift)), dims, Keep::kYes));
  const ValueId y = e.Add(log, shift);
  return {d.Keepdim() == Keep::kYes ? y : e.Squeeze(y, dims)};
}

// NaN counts as 0.
Parts Nansum(Decomposition& d) {
  Emitter& e = d.e;
  ValueId x = d.Tensor("self");
  if (IsFloat(e.dtype(x))) {
    x = Source(d);
    x = e.Where(e.Eq(x, x), x, 0.0);
  }
  return {e.Sum(x, DimsOf(d, x), d.Keepdim())};
}

Parts Aminmax(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const std::vector<int64_t> dims = DimsOf(d, x);
  return {e.Amin(x, dims, d.Keepdim()), e.Amax(x, dims, d.Keepdim())};
}

Parts CountNonzero(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  return {e.Sum(e.Ne(x, 0), DimsOf(d, x), Keep::kNo)};
}

constexpr DecomposeRow kRows[] = {
    {"aten.nansum.default", Nansum},
    {"aten.aminmax.default", Aminmax},
    {"aten.count_nonzero.default", CountNonzero},
    {"aten.count_nonzero.dim_IntList", CountNonzero},
    {"aten.mean.default", Mean},
    {"aten.mean.dim", Mean},
    {"aten.var.correction", Var},
    {"aten.std.correction", Std},
    {"aten.var_mean.correction", VarMean},
    {"aten.std_mean.correction", StdMean},
    {"aten.linalg_vector_norm.default", VectorNorm},
    {"aten._foreach_norm.Scalar", Norms},
    {"aten.norm.ScalarOpt_dim", NormP},
    {"aten.logsumexp.default", Logsumexp},
};

}  // namespace

absl::Span<const DecomposeRow> StatisticsDecompositions() { return kRows; }

}  // namespace kiln
