// Losses and their gradients. `reduction` is 0 none, 1 mean, 2 sum.

#include <cmath>
#include <utility>
#include <vector>

#include "compiler/reference/pointwise.h"
#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// The weight of each row's target; 0 for a row that is ignored.
std::vector<double> RowWeights(RefCall& call, const Elements& target) {
  const int64_t ignored = call.Int("ignore_index");
  std::vector<double> weights;
  const Elements given =
      call.Has("weight") ? call.Load("weight") : Elements::Floats({0});
  for (int64_t r = 0; r < target.count(); ++r) {
    const int64_t t = target.I(r);
    weights.push_back(t == ignored ? 0 : call.Has("weight") ? given.F(t) : 1);
  }
  return weights;
}

// Where the element of target row `r` and class `t` lies in x[N, C, ...] with
// targets [N, ...].
int64_t ElementAt(const Sizes& x, int64_t r, int64_t t) {
  if (x.size() == 1) return t;
  int64_t inner = 1;
  for (size_t d = 2; d < x.size(); ++d) inner *= x[d];
  return (r / inner * x[1] + t) * inner + r % inner;
}

RefResults NllLossForward(RefCall& call) {
  const Elements x = call.Load("self"), target = call.Load("target");
  const std::vector<double> weights = RowWeights(call, target);
  std::vector<double> losses;
  double sum = 0, total = 0;
  for (size_t r = 0; r < weights.size(); ++r) {
    const int64_t t = target.I(r);
    const bool ignored = t == call.Int("ignore_index");
    losses.push_back(ignored ? 0 : -x.F(ElementAt(x.sizes, r, t)) * weights[r]);
    sum += losses.back();
    total += weights[r];
  }
  Elements loss = Elements::Floats(call.result(0).sizes);
  if (call.Int("reduction") == kNone) {
    loss.f = losses;
    total = 0;
  } else {
    loss.f[0] = call.Int("reduction") == kMean ? sum / total : sum;
  }
  return {call.Make(0, loss), call.Make(1, Elements::Floats({}, total))};
}

RefResults NllLossBackward(RefCall& call) {
  const Elements g = call.Load("grad_output"), target = call.Load("target");
  Elements grad = Elements::Floats(call.Tensor("self").sizes);
  const std::vector<double> weights = RowWeights(call, target);
  const int64_t reduction = call.Int("reduction");
  const double total = call.Load("total_weight").F(0);
  for (size_t r = 0; r < weights.size(); ++r) {
    if (target.I(r) == call.Int("ignore_index")) continue;
    const double from = reduction == kNone ? g.F(r) : g.F(0);
    grad.f[ElementAt(grad.sizes, r, target.I(r))] =
        -from * weights[r] / (reduction == kMean ? total : 1);
  }
  return {call.Make(0, grad)};
}

// `losses` reduced as asked.
RefResults Reduced(RefCall& call, const Elements& losses) {
  const int64_t reduction = call.Int("reduction");
  if (reduction == kNone) return {call.Make(0, losses)};
  double sum = 0;
  for (double v : losses.f) sum += v;
  const double n = static_cast<double>(losses.f.size());
  return {
      call.Make(0, Elements::Floats({}, reduction == kMean ? sum / n : sum))};
}

// Losses of input and target element by element.
template <auto fn>
RefResults Pairwise(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "target"});
  Elements losses = Elements::Floats(in[0].sizes);
  for (size_t k = 0; k < losses.f.size(); ++k) {
    losses.f[k] = fn(call, in[0].F(k), in[1].F(k));
  }
  return Reduced(call, losses);
}

// grad * fn'(self, target), divided by the count for a mean.
template <auto fn>
RefResults PairwiseBackward(RefCall& call) {
  std::vector<Elements> in =
      LoadTogether(call, {"grad_output", "self", "target"});
  const double n =
      call.Int("reduction") == kMean ? static_cast<double>(in[0].f.size()) : 1;
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    in[0].f[k] *= fn(call, in[1].F(k), in[2].F(k)) / n;
  }
  return {call.Make(0, in[0])};
}

constexpr auto kMse = [](RefCall&, double x, double t) {
  return (x - t) * (x - t);
};
constexpr auto kMseSlope = [](RefCall&, double x, double t) {
  return 2 * (x - t);
};
constexpr auto kSmoothL1 = [](RefCall& call, double x, double t) {
  const double beta = call.Float("beta"), d = std::fabs(x - t);
  return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
};
constexpr auto kSmoothL1Slope = [](RefCall& call, double x, double t) {
  const double beta = call.Float("beta"), d = x - t;
  return std::fabs(d) < beta ? d / beta : d > 0 ? 1.0 : -1.0;
};
constexpr auto kHuber = [](RefCall& call, double x, double t) {
  const double delta = call.Float("delta"), d = std::fabs(x - t);
  return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
};
constexpr auto kHuberSlope = [](RefCall& call, double x, double t) {
  const double delta = call.Float("delta"), d = x - t;
  return std::fabs(d) <= delta ? d : d > 0 ? delta : -delta;
};
constexpr auto kSoftMargin = [](RefCall&, double x, double t) {
  return std::log1p(std::exp(-t * x));
};
constexpr auto kSoftMarginSlope = [](RefCall&, double x, double t) {
  return -t / (1 + std::exp(t * x));
};

RefResults BinaryCrossEntropy(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "target"});
  const Elements w = call.Has("weight")
                         ? call.Load("weight").Broadcast(in[0].sizes)
                         : Elements::Floats(in[0].sizes, 1);
  Elements losses = Elements::Floats(in[0].sizes);
  for (size_t k = 0; k < losses.f.size(); ++k) {
    const double x = in[0].f[k], t = in[1].f[k];
    losses.f[k] = -w.F(k) * (t * std::fmax(std::log(x), -100) +
                             (1 - t) * std::fmax(std::log1p(-x), -100));
  }
  return Reduced(call, losses);
}

RefResults BinaryCrossEntropyBackward(RefCall& call) {
  std::vector<Elements> in =
      LoadTogether(call, {"grad_output", "self", "target"});
  const Sizes sizes = in[0].sizes;
  const Elements w = call.Has("weight") ? call.Load("weight").Broadcast(sizes)
                                        : Elements::Floats(sizes, 1);
  const double n =
      call.Int("reduction") == kMean ? static_cast<double>(in[0].f.size()) : 1;
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    const double x = in[1].f[k], t = in[2].f[k];
    in[0].f[k] *= w.F(k) * (x - t) / std::fmax((1 - x) * x, 1e-12) / n;
  }
  return {call.Make(0, in[0])};
}

RefResults BinaryCrossEntropyWithLogits(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "target"});
  const Sizes sizes = in[0].sizes;
  const Elements w = call.Has("weight") ? call.Load("weight").Broadcast(sizes)
                                        : Elements::Floats(sizes, 1);
  const Elements p = call.Has("pos_weight")
                         ? call.Load("pos_weight").Broadcast(sizes)
                         : Elements::Floats(sizes, 1);
  Elements losses = Elements::Floats(sizes);
  for (size_t k = 0; k < losses.f.size(); ++k) {
    const double x = in[0].f[k], t = in[1].f[k];
    // -log(sigmoid(x)), without overflow.
    const double log_term =
        std::log1p(std::exp(-std::fabs(x))) + std::fmax(-x, 0);
    losses.f[k] = w.F(k) * ((1 - t) * x + (1 + (p.F(k) - 1) * t) * log_term);
  }
  return Reduced(call, losses);
}

constexpr ReferenceRow kRows[] = {
    {"aten.nll_loss_forward.default", NllLossForward},
    {"aten.nll_loss_backward.default", NllLossBackward},
    {"aten.nll_loss2d_forward.default", NllLossForward},
    {"aten.nll_loss2d_backward.default", NllLossBackward},
    {"aten.binary_cross_entropy_backward.default", BinaryCrossEntropyBackward},
    {"aten.mse_loss.default", Pairwise<kMse>},
    {"aten.mse_loss_backward.default", PairwiseBackward<kMseSlope>},
    {"aten.smooth_l1_loss.default", Pairwise<kSmoothL1>},
    {"aten.smooth_l1_loss_backward.default", PairwiseBackward<kSmoothL1Slope>},
    {"aten.huber_loss.default", Pairwise<kHuber>},
    {"aten.huber_loss_backward.default", PairwiseBackward<kHuberSlope>},
    {"aten.soft_margin_loss.default", Pairwise<kSoftMargin>},
    {"aten.soft_margin_loss_backward.default",
     PairwiseBackward<kSoftMarginSlope>},
    {"aten.binary_cross_entropy.default", BinaryCrossEntropy},
    {"aten.binary_cross_entropy_with_logits.default",
     BinaryCrossEntropyWithLogits},
};

}  // namespace

absl::Span<const ReferenceRow> LossReferences() { return kRows; }

}  // namespace kiln
