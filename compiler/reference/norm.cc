// Normalizations over rows, channels and groups, with their gradients.
//
// All are one formula on different groups of elements: with xhat = (x - mean)
// * rstd and y = xhat * weight + bias, the gradient of x in a group of n is
// rstd / n * (n * gw - sum(gw) - xhat * sum(gw * xhat)), gw = grad * weight.

#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"

namespace kiln {
namespace {

// Which group, and which weight, each element belongs to.
struct Grouping {
  int64_t groups = 0;
  int64_t weights = 0;
  std::function<int64_t(int64_t k)> group_of;
  std::function<int64_t(int64_t k)> weight_of;
};

// Rows of the last dims.
Grouping LayerGrouping(RefCall& call, int64_t count) {
  const int64_t row = NumElements(call.Ints("normalized_shape"));
  return {row == 0 ? 0 : count / row, row, [row](int64_t k) { return k / row; },
          [row](int64_t k) { return k % row; }};
}

// Channels: dim 1 of x[N, C, ...].
Grouping ChannelGrouping(const Sizes& sizes) {
  const int64_t channels = sizes[1];
  int64_t inner = 1;
  for (size_t d = 2; d < sizes.size(); ++d) inner *= sizes[d];
  const auto channel = [=](int64_t k) { return k / inner % channels; };
  return {channels, channels, channel, channel};
}

// N * group groups of C / group channels each.
Grouping GroupGrouping(RefCall& call) {
  const int64_t channels = call.Int("C"), inner = call.Int("HxW");
  const int64_t groups = call.Int("group");
  const int64_t members = channels / groups * inner;
  return {call.Int("N") * groups, channels,
          [=](int64_t k) { return k / members; },
          [=](int64_t k) { return k / inner % channels; }};
}

struct Moments {
  std::vector<double> mean, variance, rstd, count;
};

Moments MomentsOf(const Elements& x, const Grouping& grouping, double eps) {
  Moments m;
  m.mean.assign(grouping.groups, 0);
  m.variance = m.rstd = m.count = m.mean;
  for (int64_t k = 0; k < x.count(); ++k) {
    m.mean[grouping.group_of(k)] += x.F(k);
    m.count[grouping.group_of(k)] += 1;
  }
  for (int64_t g = 0; g < grouping.groups; ++g) m.mean[g] /= m.count[g];
  for (int64_t k = 0; k < x.count(); ++k) {
    const double d = x.F(k) - m.mean[grouping.group_of(k)];
    m.variance[grouping.group_of(k)] += d * d;
  }
  for (int64_t g = 0; g < grouping.groups; ++g) {
    m.variance[g] /= m.count[g];
    m.rstd[g] = 1 / std::sqrt(m.variance[g] + eps);
  }
  return m;
}

Elements OptionalLoad(RefCall& call, absl::string_view name, int64_t count,
                      double otherwise) {
  return call.Has(name) ? call.Load(name)
                        : Elements::Floats({count}, otherwise);
}

Elements Normalized(RefCall& call, const Elements& x, const Grouping& grouping,
                    const Moments& m) {
  const Elements w = OptionalLoad(call, "weight", grouping.weights, 1);
  const Elements b = OptionalLoad(call, "bias", grouping.weights, 0);
  Elements y = Elements::Floats(x.sizes);
  for (int64_t k = 0; k < x.count(); ++k) {
    const int64_t g = grouping.group_of(k), c = grouping.weight_of(k);
    y.f[k] = (x.F(k) - m.mean[g]) * m.rstd[g] * w.F(c) + b.F(c);
  }
  return y;
}

RefTensor Saved(RefCall& call, int i, const std::vector<double>& values) {
  Elements e = Elements::Floats(call.result(i).sizes);
  if (e.f.size() == values.size()) e.f = values;
  return call.Make(i, e);
}

RefResults LayerNorm(RefCall& call) {
  const Elements x = call.Load("input");
  const Grouping grouping = LayerGrouping(call, x.count());
  const Moments m = MomentsOf(x, grouping, call.Float("eps"));
  return {call.Make(0, Normalized(call, x, grouping, m)),
          Saved(call, 1, m.mean), Saved(call, 2, m.rstd)};
}

// The moments about 0 of the type that PyTorch computes in.
Moments MomentsAboutZero(RefCall& call, const Elements& x,
                         const Grouping& grouping) {
  double eps = call.Tensor("input").dtype == DType::kFloat64
                   ? std::numeric_limits<double>::epsilon()
                   : std::numeric_limits<float>::epsilon();
  if (call.Has("eps")) eps = call.Float("eps");
  Moments m;
  m.mean.assign(grouping.groups, 0);
  m.count.assign(grouping.groups, 0);
  m.variance.assign(grouping.groups, 0);
  for (int64_t k = 0; k < x.count(); ++k) {
    m.variance[grouping.group_of(k)] += x.F(k) * x.F(k);
    m.count[grouping.group_of(k)] += 1;
  }
  for (int64_t g = 0; g < grouping.groups; ++g)
    m.rstd.push_back(1 / std::sqrt(m.variance[g] / m.count[g] + eps));
  return m;
}

RefResults RmsNorm(RefCall& call) {
  const Elements x = call.Load("input");
  const Grouping grouping = LayerGrouping(call, x.count());
  const Moments m = MomentsAboutZero(call, x, grouping);
  const Elements w = OptionalLoad(call, "weight", grouping.weights, 1);
  Elements y = Elements::Floats(x.sizes);
  for (int64_t k = 0; k < x.count(); ++k)
    y.f[k] = x.F(k) * m.rstd[grouping.group_of(k)] * w.F(grouping.weight_of(k));
  return {call.Make(0, y), Saved(call, 1, m.rstd)};
}

RefResults GroupNorm(RefCall& call) {
  const Elements x = call.Load("input");
  const Grouping grouping = GroupGrouping(call);
  const Moments m = MomentsOf(x, grouping, call.Float("eps"));
  return {call.Make(0, Normalized(call, x, grouping, m)),
          Saved(call, 1, m.mean), Saved(call, 2, m.rstd)};
}

// The statistics that batch norm normalizes with when it is not training.
Moments RunningMoments(RefCall& call) {
  const Elements mean = call.Load("running_mean");
  const Elements variance = call.Load("running_var");
  Moments m;
  m.mean = mean.f;
  m.variance = variance.f;
  for (double v : m.variance) {
    m.rstd.push_back(1 / std::sqrt(v + call.Float("eps")));
  }
  return m;
}

// momentum * new + (1 - momentum) * old, the variance unbiased.
Elements Updated(RefCall& call, absl::string_view name, const Moments& m) {
  Elements old = call.Load(name);
  const double momentum = call.Float("momentum");
  const bool variance = name == "running_var";
  for (size_t c = 0; c < old.f.size(); ++c) {
    const double now =
        variance ? m.variance[c] * m.count[c] / (m.count[c] - 1) : m.mean[c];
    old.f[c] = momentum * now + (1 - momentum) * old.f[c];
  }
  return old;
}

// Results: y, the mean and the reciprocal deviation of the batch (empty when
// not training), and for the functional form the new running statistics.
RefResults BatchNormWith(RefCall& call, bool training) {
  const Elements x = call.Load("input");
  const Grouping grouping = ChannelGrouping(x.sizes);
  const Moments m = training ? MomentsOf(x, grouping, call.Float("eps"))
                             : RunningMoments(call);
  RefResults results = {call.Make(0, Normalized(call, x, grouping, m)),
                        Saved(call, 1, m.mean), Saved(call, 2, m.rstd)};
  if (call.num_results() < 5) {
    // native_batch_norm writes its running statistics.
    if (training && call.Has("running_mean")) {
      RefTensor mean = call.Tensor("running_mean");
      RefTensor variance = call.Tensor("running_var");
      Store(Updated(call, "running_mean", m), mean);
      Store(Updated(call, "running_var", m), variance);
    }
    return results;
  }
  const bool update = training && call.Has("running_mean");
  results.push_back(call.Make(3, update ? Updated(call, "running_mean", m)
                                        : call.Load("running_mean")));
  results.push_back(call.Make(
      4, update ? Updated(call, "running_var", m) : call.Load("running_var")));
  return results;
}

RefResults BatchNorm(RefCall& call) {
  return BatchNormWith(call, call.Bool("training"));
}
RefResults BatchNormInference(RefCall& call) {
  return BatchNormWith(call, false);
}
RefResults BatchNormNoStats(RefCall& call) { return BatchNormWith(call, true); }

struct Gradients {
  Elements x, weight, bias;
};

// `moving`: whether mean and rstd depend on x.
Gradients GradientsOf(RefCall& call, const Grouping& grouping, const Moments& m,
                      bool moving) {
  const Elements g = call.Load("grad_out"), x = call.Load("input");
  const Elements w = OptionalLoad(call, "weight", grouping.weights, 1);
  std::vector<double> n(grouping.groups, 0), sum = n, dot = n;
  Gradients out = {Elements::Floats(x.sizes),
                   Elements::Floats({grouping.weights}),
                   Elements::Floats({grouping.weights})};
  const auto xhat = [&](int64_t k) {
    const int64_t at = grouping.group_of(k);
    return (x.F(k) - m.mean[at]) * m.rstd[at];
  };
  for (int64_t k = 0; k < x.count(); ++k) {
    const int64_t at = grouping.group_of(k), c = grouping.weight_of(k);
    const double gw = g.F(k) * w.F(c);
    n[at] += 1;
    sum[at] += gw;
    dot[at] += gw * xhat(k);
    out.weight.f[c] += g.F(k) * xhat(k);
    out.bias.f[c] += g.F(k);
  }
  for (int64_t k = 0; k < x.count(); ++k) {
    const int64_t at = grouping.group_of(k), c = grouping.weight_of(k);
    const double gw = g.F(k) * w.F(c);
    const double through = moving ? (sum[at] + xhat(k) * dot[at]) / n[at] : 0;
    out.x.f[k] = m.rstd[at] * (gw - through);
  }
  return out;
}

RefResults Masked(RefCall& call, Gradients gradients) {
  const std::vector<bool> mask = call.Bools("output_mask");
  Elements* all[] = {&gradients.x, &gradients.weight, &gradients.bias};
  RefResults results(3);
  for (int i = 0; i < 3; ++i) {
    if (!mask[i] || !call.result(i).defined) continue;
    // The weight's gradient has the weight's shape.
    all[i]->sizes = call.result(i).sizes;
    results[i] = call.Make(i, *all[i]);
  }
  return results;
}

Moments SavedMoments(RefCall& call, absl::string_view mean,
                     absl::string_view rstd) {
  Moments m;
  m.mean = call.Load(mean).AsFloats().f;
  m.rstd = call.Load(rstd).AsFloats().f;
  return m;
}

RefResults LayerNormBackward(RefCall& call) {
  const Grouping grouping = LayerGrouping(call, call.Tensor("input").numel());
  return Masked(call, GradientsOf(call, grouping,
                                  SavedMoments(call, "mean", "rstd"), true));
}

RefResults RmsNormBackward(RefCall& call) {
  const Elements g = call.Load("grad_out"), x = call.Load("input");
  const Grouping grouping = LayerGrouping(call, x.count());
  const Elements w = OptionalLoad(call, "weight", grouping.weights, 1);
  const std::vector<double> rstd = call.Load("rstd").AsFloats().f;
  const std::vector<bool> mask = call.Bools("output_mask");
  Elements dx = Elements::Floats(x.sizes);
  Elements dw = Elements::Floats({grouping.weights});
  std::vector<double> dot(grouping.groups, 0);
  for (int64_t k = 0; k < x.count(); ++k) {
    const int64_t at = grouping.group_of(k), c = grouping.weight_of(k);
    const double xhat = x.F(k) * rstd[at];
    dot[at] += g.F(k) * w.F(c) * xhat / grouping.weights;
    dw.f[c] += g.F(k) * xhat;
  }
  for (int64_t k = 0; k < x.count(); ++k) {
    const int64_t at = grouping.group_of(k), c = grouping.weight_of(k);
    dx.f[k] = rstd[at] * (g.F(k) * w.F(c) - x.F(k) * rstd[at] * dot[at]);
  }
  RefResults results(2);
  if (mask[0]) results[0] = call.Make(0, dx);
  if (mask[1] && call.result(1).defined) {
    dw.sizes = call.result(1).sizes;
    results[1] = call.Make(1, dw);
  }
  return results;
}

RefResults GroupNormBackward(RefCall& call) {
  return Masked(call, GradientsOf(call, GroupGrouping(call),
                                  SavedMoments(call, "mean", "rstd"), true));
}

RefResults BatchNormBackward(RefCall& call) {
  const bool training = call.Bool("train");
  const Moments m = training ? SavedMoments(call, "save_mean", "save_invstd")
                             : RunningMoments(call);
  return Masked(
      call, GradientsOf(call, ChannelGrouping(call.Tensor("input").sizes), m,
                        training));
}

constexpr ReferenceRow kRows[] = {
    {"aten.native_layer_norm.default", LayerNorm},
    {"aten.native_layer_norm_backward.default", LayerNormBackward},
    {"aten._fused_rms_norm.default", RmsNorm},
    {"aten._fused_rms_norm_backward.default", RmsNormBackward},
    {"aten.native_group_norm.default", GroupNorm},
    {"aten.native_group_norm_backward.default", GroupNormBackward},
    {"aten.native_batch_norm.default", BatchNorm},
    {"aten._native_batch_norm_legit.default", BatchNorm},
    {"aten._native_batch_norm_legit.no_stats", BatchNormNoStats},
    {"aten._native_batch_norm_legit_functional.default", BatchNorm},
    {"aten._native_batch_norm_legit_no_training.default", BatchNormInference},
    {"aten.native_batch_norm_backward.default", BatchNormBackward},
};

}  // namespace

absl::Span<const ReferenceRow> NormReferences() { return kRows; }

}  // namespace kiln
