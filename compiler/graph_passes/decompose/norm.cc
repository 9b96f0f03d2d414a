// Normalizations and their gradients.
//
// Written so that one kernel can do each: a forward is two sums over the same
// rows and one more walk over them; a gradient's sums, over rows for x and
// over columns for weight and bias, read the same two tensors.

#include <limits>
#include <utility>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

struct Centered {
  ValueId mean, rstd;  // with the reduced dims kept
  ValueId variance;
  ValueId x;  // x - mean
};

// Two passes: the mean, then the mean of squares about it.
Centered Center(Emitter& e, ValueId x, absl::Span<const int64_t> dims,
                double eps) {
  Centered c;
  c.mean = e.Mean(x, dims, Keep::kYes);
  c.x = e.Sub(x, c.mean);
  c.variance = e.Mean(e.Square(c.x), dims, Keep::kYes);
  c.rstd = e.Rsqrt(e.Add(c.variance, eps));
  return c;
}

// x * weight + bias, each where given and seen under `sizes`.
ValueId Affine(Decomposition& d, ValueId x, const DimVector& sizes) {
  Emitter& e = d.e;
  if (d.Has("weight")) x = e.Mul(x, e.View(d.Compute("weight"), sizes));
  if (d.Has("bias")) x = e.Add(x, e.View(d.Compute("bias"), sizes));
  return x;
}

Parts LayerNorm(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("input");
  const DimVector shape = d.Ints("normalized_shape");
  const int rank = e.rank(x);
  const std::vector<int64_t> dims =
      DimRange(rank - static_cast<int64_t>(shape.size()), rank);
  const Centered c = Center(e, x, dims, d.Float("eps"));
  return {Affine(d, e.Mul(c.x, c.rstd), shape), c.mean, c.rstd};
}

// (gw - mean(gw) - xhat * mean(gw * xhat)) * rstd, the gradient of what was normalized.
ValueId InputGradient(Emitter& e, ValueId gw, ValueId xhat, ValueId rstd,
                      ValueId mean, ValueId dot) {
  return e.Mul(e.Sub(e.Sub(gw, mean), e.Mul(xhat, dot)), rstd);
}
ValueId InputGradient(Emitter& e, ValueId gw, ValueId xhat, ValueId rstd,
                      absl::Span<const int64_t> dims) {
  return InputGradient(e, gw, xhat, rstd, e.Mean(gw, dims, Keep::kYes),
                       e.Mean(e.Mul(gw, xhat), dims, Keep::kYes));
}

Parts LayerNormBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_out"), x = d.Compute("input");
  const ValueId rstd = d.Compute("rstd");
  const DimVector shape = d.Ints("normalized_shape");
  const int rank = e.rank(x);
  const int64_t first = rank - static_cast<int64_t>(shape.size());
  const std::vector<bool> mask = d.Bools("output_mask");
  const ValueId xhat = e.Mul(e.Sub(x, d.Compute("mean")), rstd);
  Parts parts(3);
  if (mask[0]) {
    const ValueId gw = d.Has("weight") ? e.Mul(g, d.Compute("weight")) : g;
    parts[0] = InputGradient(e, gw, xhat, rstd, DimRange(first, rank));
  }
  const std::vector<int64_t> rows = DimRange(0, first);
  if (mask[1] && d.Has("weight")) {
    parts[1] = e.Sum(e.Mul(g, xhat), rows, Keep::kNo);
  }
  if (mask[2] && d.Has("bias")) parts[2] = e.Sum(g, rows, Keep::kNo);
  return parts;
}

// Without an eps it is that of the type that is computed in.
Parts RmsNorm(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("input");
  const DimVector shape = d.Ints("normalized_shape");
  const int rank = e.rank(x);
  const double least = e.meta(x).dtype == DType::kFloat64
                           ? std::numeric_limits<double>::epsilon()
                           : std::numeric_limits<float>::epsilon();
  const ValueId mean = e.Mean(
      e.Square(x), DimRange(rank - static_cast<int64_t>(shape.size()), rank),
      Keep::kYes);
  const ValueId rstd =
      e.Rsqrt(e.Add(mean, d.Has("eps") ? d.Float("eps") : least));
  ValueId y = e.Mul(x, rstd);
  if (d.Has("weight")) y = e.Mul(y, e.View(d.Compute("weight"), shape));
  return {y, rstd};
}

Parts RmsNormBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_out"), x = d.Compute("input");
  const ValueId rstd = d.Compute("rstd");
  const int rank = e.rank(x);
  const int64_t first =
      rank - static_cast<int64_t>(d.Ints("normalized_shape").size());
  const std::vector<bool> mask = d.Bools("output_mask");
  const ValueId xhat = e.Mul(x, rstd);
  Parts parts(2);
  if (mask[0]) {
    const ValueId gw = d.Has("weight") ? e.Mul(g, d.Compute("weight")) : g;
    const ValueId dot =
        e.Mean(e.Mul(gw, xhat), DimRange(first, rank), Keep::kYes);
    parts[0] = e.Mul(e.Sub(gw, e.Mul(xhat, dot)), rstd);
  }
  if (mask[1] && d.Has("weight"))
    parts[1] = e.Sum(e.Mul(g, xhat), DimRange(0, first), Keep::kNo);
  return parts;
}

// [C, 1, 1, ...], which meets x[N, C, ...] by broadcasting.
DimVector ChannelSizes(const TensorMeta& x) {
  DimVector sizes = {x.sizes[1]};
  for (int k = 2; k < x.rank(); ++k) sizes.push_back(1);
  return sizes;
}

// momentum * now + (1 - momentum) * before
ValueId Updated(Decomposition& d, absl::string_view name, ValueId now) {
  Emitter& e = d.e;
  const double momentum = d.Float("momentum");
  return e.Add(e.Mul(now, momentum), e.Mul(d.Compute(name), 1 - momentum));
}

// A variance over n by n to one over n - 1.
ValueId Unbiased(Emitter& e, ValueId variance, const SymExpr& n) {
  if (!n.is_constant()) return e.Div(e.Mul(variance, n), n - 1);
  const double count = static_cast<double>(n.constant());
  return e.Mul(variance, count / (count - 1));
}

Parts BatchNormTraining(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("input");
  const std::vector<int64_t> dims = OtherDims({1}, e.rank(x));
  const DimVector channel = ChannelSizes(e.meta(x));
  const DimVector flat = {e.meta(x).sizes[1]};
  const Centered c = Center(e, x, dims, d.Float("eps"));
  const ValueId mean = e.View(c.mean, flat);
  Parts parts = {Affine(d, e.Mul(c.x, c.rstd), channel), mean,
                 e.View(c.rstd, flat)};
  if (d.num_results() < 5) return parts;
  if (!d.Has("running_mean")) return d.Unsupported("no running statistics");
  parts.push_back(Updated(d, "running_mean", mean));
  parts.push_back(
      Updated(d, "running_var",
              Unbiased(e, e.View(c.variance, flat), e.Count(x, dims))));
  return parts;
}

// With scale = w * rsqrt(running_var + eps): x * scale + (b - mean * scale),
// whose two factors are per channel.
Parts BatchNormInference(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("input");
  const DimVector channel = ChannelSizes(e.meta(x));
  const ValueId mean = e.View(d.Compute("running_mean"), channel);
  const ValueId variance = e.View(d.Compute("running_var"), channel);
  const ValueId rstd = e.Rsqrt(e.Add(variance, d.Float("eps")));
  const ValueId y = Affine(d, e.Mul(e.Sub(x, mean), rstd), channel);
  Parts parts = {y};
  // The saved statistics are empty, or on some devices the running ones.
  for (size_t i = 1; i < 3 && i < d.num_results(); ++i) {
    const TensorMeta& due = d.result(i);
    const bool empty = due.sizes.size() == 1 && due.sizes[0].Is(0);
    parts.push_back(empty ? e.Full(due.sizes, 0.0, due.dtype)
                          : e.View(i == 1 ? mean : rstd, due.sizes));
  }
  for (size_t i = 3; i < d.num_results(); ++i) {
    parts.push_back(d.Compute(i == 3 ? "running_mean" : "running_var"));
  }
  return parts;
}

Parts BatchNorm(Decomposition& d) {
  return d.Bool("training") ? BatchNormTraining(d) : BatchNormInference(d);
}

// With c = x - mean, s1 = sum(g), s2 = sum(g * c): all that is summed.
Parts BatchNormBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_out"), x = d.Compute("input");
  const std::vector<int64_t> dims = OtherDims({1}, e.rank(x));
  const DimVector channel = ChannelSizes(e.meta(x));
  const DimVector flat = {e.meta(x).sizes[1]};
  const bool train = d.Bool("train");
  const ValueId mean =
      e.View(d.Compute(train ? "save_mean" : "running_mean"), channel);
  const ValueId rstd =
      train ? e.View(d.Compute("save_invstd"), channel)
            : e.Rsqrt(e.Add(e.View(d.Compute("running_var"), channel),
                            d.Float("eps")));
  const std::vector<bool> mask = d.Bools("output_mask");
  const ValueId c = e.Sub(x, mean);
  const ValueId s1 = e.View(e.Sum(g, dims, Keep::kNo), channel);
  const ValueId s2 = e.View(e.Sum(e.Mul(g, c), dims, Keep::kNo), channel);
  Parts parts(3);
  if (mask[0]) {
    const ValueId scale =
        d.Has("weight") ? e.Mul(rstd, e.View(d.Compute("weight"), channel))
                        : rstd;
    ValueId inner = g;
    if (train) {
      const SymExpr n = e.Count(x, dims);
      const ValueId slope = e.Mul(e.Div(s2, n), e.Square(rstd));
      inner = e.Sub(e.Sub(g, e.Div(s1, n)), e.Mul(c, slope));
    }
    parts[0] = e.Mul(inner, scale);
  }
  if (mask[1]) parts[1] = e.View(e.Mul(s2, rstd), flat);
  if (mask[2]) parts[2] = e.View(s1, flat);
  return parts;
}

// x[N, C, ...] with C cut into [group, C / group]: a view in any layout.
DimVector GroupedSizes(Decomposition& d, const TensorMeta& x) {
  const SymExpr groups = d.Get("group").sym();
  DimVector sizes = {x.sizes[0], groups, FloorDiv(x.sizes[1], groups)};
  for (int k = 2; k < x.rank(); ++k) sizes.push_back(x.sizes[k]);
  return sizes;
}

// A vector over channels as [group, C / group, 1, ...].
DimVector GroupedChannelSizes(const DimVector& grouped) {
  DimVector sizes = {grouped[1], grouped[2]};
  for (size_t k = 3; k < grouped.size(); ++k) sizes.push_back(1);
  return sizes;
}

Parts GroupNorm(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("input");
  const DimVector sizes = e.meta(x).sizes;
  const DimVector grouped = GroupedSizes(d, e.meta(x));
  const std::vector<int64_t> dims =
      DimRange(2, static_cast<int64_t>(grouped.size()));
  const Centered c = Center(e, e.Reshape(x, grouped), dims, d.Float("eps"));
  const ValueId y = Affine(d, e.Mul(c.x, c.rstd), GroupedChannelSizes(grouped));
  const DimVector flat = {grouped[0], grouped[1]};
  return {e.Reshape(y, sizes), e.View(c.mean, flat), e.View(c.rstd, flat)};
}

// Whether a group is so large that a kernel cannot hold it, so that its sums are read for
// in a kernel of their own; or a single channel, whose sums are the group's.
bool SumsByChannel(Decomposition& d, const DimVector& grouped) {
  constexpr int64_t kMostHeld = 32768;
  if (grouped.size() < 4) return false;
  if (grouped[2].Is(1)) return true;
  SymExpr count = grouped[2];
  for (size_t k = 3; k < grouped.size(); ++k) count = count * grouped[k];
  return d.e.graph().shapes.Hint(count) > kMostHeld;
}

Parts GroupNormBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("input");
  const DimVector sizes = e.meta(x).sizes;
  const DimVector grouped = GroupedSizes(d, e.meta(x));
  const int64_t rank = static_cast<int64_t>(grouped.size());
  const ValueId g = e.Reshape(d.Compute("grad_out"), grouped);
  DimVector row = {grouped[0], grouped[1]};
  for (int64_t k = 2; k < rank; ++k) row.push_back(1);
  const ValueId rstd = e.View(d.Compute("rstd"), row);
  const ValueId xhat =
      e.Mul(e.Sub(e.Reshape(x, grouped), e.View(d.Compute("mean"), row)), rstd);
  // The terms of the weight's and the bias's gradients, or their sums over a channel.
  ValueId scaled = e.Mul(g, xhat), plain = g;
  const bool by_channel = SumsByChannel(d, grouped);
  std::vector<int64_t> columns = OtherDims({1, 2}, rank);
  if (by_channel) {
    const std::vector<int64_t> channel = DimRange(3, rank);
    scaled = e.Sum(scaled, channel, Keep::kYes);
    plain = e.Sum(plain, channel, Keep::kYes);
    columns = {0};
  }
  const auto weighted = [&](ValueId value) {
    if (!d.Has("weight")) return value;
    return e.Mul(value,
                 e.View(d.Compute("weight"), GroupedChannelSizes(grouped)));
  };
  const std::vector<bool> mask = d.Bools("output_mask");
  Parts parts(3);
  if (mask[0]) {
    const ValueId gw = weighted(g);
    const SymExpr count = e.Count(xhat, DimRange(2, rank));
    const auto mean = [&](ValueId sums) {
      const ValueId of_channel = weighted(sums);
      return e.Div(
          grouped[2].Is(1) ? of_channel : e.Sum(of_channel, {2}, Keep::kYes),
          count);
    };
    parts[0] = e.Reshape(
        by_channel ? InputGradient(e, gw, xhat, rstd, mean(plain), mean(scaled))
                   : InputGradient(e, gw, xhat, rstd, DimRange(2, rank)),
        sizes);
  }
  const DimVector flat = {sizes[1]};
  if (mask[1]) parts[1] = e.Reshape(e.Sum(scaled, columns, Keep::kNo), flat);
  if (mask[2]) parts[2] = e.Reshape(e.Sum(plain, columns, Keep::kNo), flat);
  return parts;
}

constexpr DecomposeRow kRows[] = {
    {"aten.native_layer_norm.default", LayerNorm},
    {"aten.native_layer_norm_backward.default", LayerNormBackward},
    {"aten._fused_rms_norm.default", RmsNorm},
    {"aten._fused_rms_norm_backward.default", RmsNormBackward},
    {"aten._native_batch_norm_legit_functional.default", BatchNorm},
    {"aten.native_batch_norm.default", BatchNorm},
    {"aten._native_batch_norm_legit.default", BatchNorm},
    {"aten._native_batch_norm_legit.no_stats", BatchNormTraining},
    {"aten._native_batch_norm_legit_no_training.default", BatchNormInference},
    {"aten.native_batch_norm_backward.default", BatchNormBackward},
    {"aten.native_group_norm.default", GroupNorm},
    {"aten.native_group_norm_backward.default", GroupNormBackward},
};

}  // namespace

absl::Span<const DecomposeRow> NormDecompositions() { return kRows; }

}  // namespace kiln
