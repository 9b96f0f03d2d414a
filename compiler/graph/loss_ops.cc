// Losses and their gradients.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/elementwise_rules.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;
constexpr int64_t kNoReduction = 0;

absl::Status CheckTarget(const InferInput& in, const TensorMeta& self,
                         const TensorMeta& target) {
  const bool batched =
      self.rank() == 2 && target.rank() == 1 &&
      in.shapes.DecideEq(self.sizes[0], target.sizes[0], "nll_loss");
  const bool single = self.rank() == 1 && target.rank() <= 1;
  if (batched || single) return absl::OkStatus();
  return Malformed(
      absl::StrCat("target ", ToText(target), " for ", ToText(self)));
}

// nll_loss_forward(self, target, weight, reduction, ignore_index)
absl::StatusOr<TensorMetas> InferNllForward(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(CheckTarget(in, self, in.tensor(1)));
  DimVector sizes;
  if (in.integer(3) == kNoReduction && self.rank() == 2) {
    sizes.push_back(self.sizes[0]);
  }
  return TensorMetas{ContiguousMeta(self.dtype, std::move(sizes)),
                     ContiguousMeta(self.dtype, {})};
}

// nll_loss_backward(grad_output, self, target, weight, reduction,
// ignore_index, total_weight)
absl::StatusOr<TensorMetas> InferNllBackward(const InferInput& in) {
  const TensorMeta& self = in.tensor(1);
  RETURN_IF_ERROR(CheckTarget(in, self, in.tensor(2)));
  return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
}

// nll_loss2d: classes in dimension 1 of four.
absl::StatusOr<TensorMetas> InferNll2dForward(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const TensorMeta& target = in.tensor(1);
  if (self.rank() != 4 || target.rank() != 3) {
    return Malformed(
        absl::StrCat("target ", ToText(target), " for ", ToText(self)));
  }
  DimVector sizes;
  if (in.integer(3) == kNoReduction) sizes = target.sizes;
  return TensorMetas{ContiguousMeta(self.dtype, std::move(sizes)),
                     ContiguousMeta(self.dtype, {})};
}
absl::StatusOr<TensorMetas> InferNll2dBackward(const InferInput& in) {
  const TensorMeta& self = in.tensor(1);
  return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
}

// loss(self, target, reduction, ...)
absl::StatusOr<TensorMetas> PointwiseLoss(const InferInput& in,
                                          size_t reduction_at) {
  const DType dtype = Promote(in, {0, 1}).Result();
  if (in.integer(reduction_at) != kNoReduction) {
    return TensorMetas{ContiguousMeta(dtype, {})};
  }
  ASSIGN_OR_RETURN(TensorMeta meta, BroadcastMeta(in, {0, 1}, dtype));
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferLoss(const InferInput& in) {
  return PointwiseLoss(in, 2);
}
absl::StatusOr<TensorMetas> InferWeightedLoss(const InferInput& in) {
  return PointwiseLoss(in, 3);
}
absl::StatusOr<TensorMetas> InferLogitsLoss(const InferInput& in) {
  return PointwiseLoss(in, 4);
}

// loss_backward(grad_output, self, target, ...)
absl::StatusOr<TensorMetas> InferLossBackward(const InferInput& in) {
  ASSIGN_OR_RETURN(
      TensorMeta meta,
      BroadcastMeta(in, {0, 1, 2}, Promote(in, {0, 1, 2}).Result()));
  return TensorMetas{std::move(meta)};
}

constexpr OpRow kRows[] = {
    {"aten.nll_loss_forward.default",
     "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
     "ignore_index) -> (Tensor output, Tensor total_weight)",
     InferNllForward, kDecompose},
    {"aten.nll_loss_backward.default",
     "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
     "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
     InferNllBackward, kDecompose},
    {"aten.nll_loss2d_forward.default",
     "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
     "ignore_index) -> (Tensor output, Tensor total_weight)",
     InferNll2dForward, kDecompose},
    {"aten.nll_loss2d_backward.default",
     "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
     "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
     InferNll2dBackward, kDecompose},
    {"aten.mse_loss.default",
     "(Tensor self, Tensor target, int reduction=Mean) -> Tensor", InferLoss,
     kDecompose},
    {"aten.mse_loss_backward.default",
     "(Tensor grad_output, Tensor self, Tensor target, int reduction) -> "
     "Tensor",
     InferLossBackward, kDecompose},
    {"aten.soft_margin_loss.default",
     "(Tensor self, Tensor target, int reduction=Mean) -> Tensor", InferLoss,
     kDecompose},
    {"aten.soft_margin_loss_backward.default",
     "(Tensor grad_output, Tensor self, Tensor target, int reduction) -> "
     "Tensor",
     InferLossBackward, kDecompose},
    {"aten.smooth_l1_loss.default",
     "(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> "
     "Tensor",
     InferLoss, kDecompose},
    {"aten.smooth_l1_loss_backward.default",
     "(Tensor grad_output, Tensor self, Tensor target, int reduction, float "
     "beta) -> Tensor",
     InferLossBackward, kDecompose},
    {"aten.huber_loss.default",
     "(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> "
     "Tensor",
     InferLoss, kDecompose},
    {"aten.huber_loss_backward.default",
     "(Tensor grad_output, Tensor self, Tensor target, int reduction, float "
     "delta) -> Tensor",
     InferLossBackward, kDecompose},
    {"aten.binary_cross_entropy.default",
     "(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> "
     "Tensor",
     InferWeightedLoss, kDecompose},
    {"aten.binary_cross_entropy_backward.default",
     "(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, "
     "int reduction=Mean) -> Tensor",
     InferLossBackward, kDecompose},
    {"aten.binary_cross_entropy_with_logits.default",
     "(Tensor self, Tensor target, Tensor? weight=None, Tensor? "
     "pos_weight=None, int reduction=Mean) -> Tensor",
     InferLogitsLoss, kDecompose},
};

}  // namespace

absl::Span<const OpRow> LossOps() { return kRows; }

}  // namespace kiln
