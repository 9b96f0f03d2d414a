// Losses and their gradients. `reduction` is 0 none, 1 mean, 2 sum.

#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;
constexpr int64_t kNone = 0;
constexpr int64_t kMean = 1;

std::vector<int64_t> AllDims(const Emitter& e, ValueId v) {
  return DimRange(0, e.rank(v));
}

ValueId Reduced(Decomposition& d, ValueId losses) {
  Emitter& e = d.e;
  if (d.Int("reduction") == kNone) return losses;
  const std::vector<int64_t> dims = AllDims(e, losses);
  return d.Int("reduction") == kMean ? e.Mean(losses, dims, Keep::kNo)
                                     : e.Sum(losses, dims, Keep::kNo);
}

// Whether target rows with `ignored` could be rows of a class: only then must
// the gradient look for them.
bool MayBeClass(const SymExpr& ignored, const SymExpr& classes,
                const ShapeEnv& shapes) {
  return !shapes.KnownLt(ignored, 0) && !shapes.KnownLe(classes, ignored);
}

// The weight of each target's class.
ValueId ClassWeights(Decomposition& d, ValueId target) {
  return d.e.Call("aten.index.Tensor",
                  {d.Compute("weight"), Argument::List{target}});
}

// x[N, C, ...] with targets t[N, ...]: the picked elements are gathered,
// weighted and summed in one walk over the targets.
Parts NllLossForward(Decomposition& d) {
  Emitter& e = d.e;
  static const OpDef& kGather = KnownOp("aten.gather.default");
  ValueId x = d.Tensor("self"), target = d.Tensor("target");
  const bool single = e.rank(x) == 1;
  if (single) {
    x = e.Unsqueeze(x, 0);
    target = e.View(target, {1});
  }
  const DType compute =
      e.dtype(x) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const ValueId counts = e.Ne(target, d.Get("ignore_index"));
  const ValueId safe = e.Where(counts, target, e.Full({}, 0, e.dtype(target)));
  const ValueId picked = e.Compute(
      e.Squeeze(e.Call(kGather, {x, 1, e.Unsqueeze(safe, 1), false}), {1}));
  ValueId weight = e.ToDType(counts, compute);
  if (d.Has("weight")) weight = e.Mul(ClassWeights(d, safe), weight);
  const ValueId losses = e.Where(
      counts, e.Neg(d.Has("weight") ? e.Mul(picked, weight) : picked), 0.0);
  const int64_t reduction = d.Int("reduction");
  if (reduction == kNone) {
    return {single ? e.View(losses, {}) : losses, e.Full({}, 0.0, compute)};
  }
  const std::vector<int64_t> dims = AllDims(e, losses);
  const ValueId total = e.Sum(weight, dims, Keep::kNo);
  const ValueId sum = e.Sum(losses, dims, Keep::kNo);
  return {reduction == kMean ? e.Div(sum, total) : sum, total};
}

// A vector over classes so that it meets x[N, C, ...] by broadcasting.
ValueId AlongClasses(Emitter& e, ValueId v, int rank) {
  DimVector sizes = {e.meta(v).sizes[0]};
  for (int k = 2; k < rank; ++k) sizes.push_back(1);
  return e.View(v, sizes);
}

// where(class == target, -g * weight / total, 0): no zeros to scatter into.
Parts NllLossBackward(Decomposition& d) {
  Emitter& e = d.e;
  const DimVector sizes = e.meta(d.Tensor("self")).sizes;
  const int rank = static_cast<int>(sizes.size());
  const int class_dim = rank == 1 ? 0 : 1;
  const SymExpr classes = sizes[class_dim];
  const int64_t reduction = d.Int("reduction");
  // [N, 1, ...], or [1] for a single row.
  const ValueId target = e.Unsqueeze(d.Tensor("target"), class_dim);
  ValueId g = d.Compute("grad_output");
  if (reduction == kNone && rank > 1) g = e.Unsqueeze(g, 1);
  ValueId scale = e.Neg(g);
  if (reduction == kMean) scale = e.Div(scale, d.Compute("total_weight"));
  if (d.Has("weight")) {
    scale = e.Mul(scale, AlongClasses(e, d.Compute("weight"), rank));
  }
  ValueId hit =
      e.Eq(AlongClasses(e, e.Iota(classes, DType::kInt64), rank), target);
  const SymExpr ignored = d.Get("ignore_index").sym();
  if (MayBeClass(ignored, classes, e.graph().shapes)) {
    hit = e.And(hit, e.Ne(target, d.Get("ignore_index")));
  }
  return {e.Where(hit, scale, 0.0)};
}

Parts MseLoss(Decomposition& d) {
  Emitter& e = d.e;
  return {Reduced(d, e.Square(e.Sub(d.Compute("self"), d.Compute("target"))))};
}

// `slope` times the gradient, divided by the count for a mean.
Parts Through(Decomposition& d, ValueId slope) {
  Emitter& e = d.e;
  ValueId grad = e.Mul(slope, d.Compute("grad_output"));
  if (d.Int("reduction") == kMean) {
    grad = e.Div(grad, e.meta(d.Tensor("self")).numel());
  }
  return {grad};
}

Parts MseLossBackward(Decomposition& d) {
  Emitter& e = d.e;
  return Through(d, e.Mul(e.Sub(d.Compute("self"), d.Compute("target")), 2.0));
}

Parts SmoothL1Loss(Decomposition& d) {
  Emitter& e = d.e;
  const double beta = d.Float("beta");
  const ValueId a = e.Abs(e.Sub(d.Compute("self"), d.Compute("target")));
  if (beta == 0) return {Reduced(d, a)};
  return {
      Reduced(d, e.Where(e.Lt(a, beta), e.Div(e.Mul(e.Square(a), 0.5), beta),
                         e.Sub(a, 0.5 * beta)))};
}

Parts SmoothL1LossBackward(Decomposition& d) {
  Emitter& e = d.e;
  const double beta = d.Float("beta");
  const ValueId x = e.Sub(d.Compute("self"), d.Compute("target"));
  const ValueId sign = e.Call("aten.sign.default", {x});
  return Through(d, e.Where(e.Lt(e.Abs(x), beta), e.Div(x, beta), sign));
}

Parts HuberLoss(Decomposition& d) {
  Emitter& e = d.e;
  const double delta = d.Float("delta");
  const ValueId a = e.Abs(e.Sub(d.Compute("self"), d.Compute("target")));
  return {Reduced(d, e.Where(e.Le(a, delta), e.Mul(e.Square(a), 0.5),
                             e.Mul(e.Sub(a, 0.5 * delta), delta)))};
}

Parts HuberLossBackward(Decomposition& d) {
  Emitter& e = d.e;
  const double delta = d.Float("delta");
  const ValueId x = e.Sub(d.Compute("self"), d.Compute("target"));
  return Through(d, e.ClampMax(e.ClampMin(x, -delta), delta));
}

Parts SoftMarginLoss(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = e.Mul(e.Neg(d.Compute("target")), d.Compute("self"));
  return {Reduced(d, e.Log1p(e.Exp(x)))};
}

Parts SoftMarginLossBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId t = d.Compute("target");
  const ValueId z = e.Exp(e.Mul(e.Neg(t), d.Compute("self")));
  return Through(d, e.Div(e.Mul(e.Neg(t), z), e.Add(z, 1.0)));
}

// Logarithms are kept above -100, as in eager mode.
Parts BinaryCrossEntropy(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self"), t = d.Compute("target");
  const ValueId yes = e.ClampMin(e.Log(x), -100.0);
  const ValueId no = e.ClampMin(e.Log1p(e.Neg(x)), -100.0);
  ValueId losses = e.Sub(e.Mul(e.Sub(t, 1.0), no), e.Mul(t, yes));
  if (d.Has("weight")) losses = e.Mul(losses, d.Compute("weight"));
  return {Reduced(d, losses)};
}

Parts BinaryCrossEntropyBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self"), t = d.Compute("target");
  const ValueId under = e.ClampMin(e.Mul(e.Rsub(x, 1.0), x), 1e-12);
  ValueId slope = e.Div(e.Sub(x, t), under);
  if (d.Has("weight")) slope = e.Mul(slope, d.Compute("weight"));
  return Through(d, slope);
}

// (1 - t) * x + (1 + (pos_weight - 1) * t) * -log(sigmoid(x))
Parts BinaryCrossEntropyWithLogits(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self"), t = d.Compute("target");
  ValueId log_term =
      e.Add(e.Log1p(e.Exp(e.Neg(e.Abs(x)))), e.ClampMin(e.Neg(x), 0.0));
  if (d.Has("pos_weight")) {
    const ValueId p = d.Compute("pos_weight");
    log_term = e.Mul(e.Add(e.Mul(e.Sub(p, 1.0), t), 1.0), log_term);
  }
  ValueId losses = e.Add(e.Mul(e.Rsub(t, 1.0), x), log_term);
  if (d.Has("weight")) losses = e.Mul(losses, d.Compute("weight"));
  return {Reduced(d, losses)};
}

constexpr DecomposeRow kRows[] = {
    {"aten.nll_loss_forward.default", NllLossForward},
    {"aten.nll_loss_backward.default", NllLossBackward},
    {"aten.nll_loss2d_forward.default", NllLossForward},
    {"aten.nll_loss2d_backward.default", NllLossBackward},
    {"aten.mse_loss.default", MseLoss},
    {"aten.mse_loss_backward.default", MseLossBackward},
    {"aten.smooth_l1_loss.default", SmoothL1Loss},
    {"aten.smooth_l1_loss_backward.default", SmoothL1LossBackward},
    {"aten.huber_loss.default", HuberLoss},
    {"aten.huber_loss_backward.default", HuberLossBackward},
    {"aten.soft_margin_loss.default", SoftMarginLoss},
    {"aten.soft_margin_loss_backward.default", SoftMarginLossBackward},
    {"aten.binary_cross_entropy.default", BinaryCrossEntropy},
    {"aten.binary_cross_entropy_backward.default", BinaryCrossEntropyBackward},
    {"aten.binary_cross_entropy_with_logits.default",
     BinaryCrossEntropyWithLogits},
};

}  // namespace

absl::Span<const DecomposeRow> LossDecompositions() { return kRows; }

}  // namespace kiln
