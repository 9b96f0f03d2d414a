// Activations and their gradients. All are replaced by plainer operators.

#include <utility>

#include "compiler/graph/elementwise_rules.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;
constexpr auto kInplace = OpRow::Inplace::kYes;

// glu(self, dim): the first half, gated by the second.
absl::StatusOr<TensorMetas> InferGlu(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (self.rank() == 0) return Malformed("a tensor of rank 0");
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank()));
  DimVector sizes = self.sizes;
  sizes[dim] = FloorDiv(sizes[dim], 2);
  return TensorMetas{ContiguousMeta(self.dtype, std::move(sizes))};
}

// log_sigmoid_forward(self): the result, and exp(-|x|) as eager mode on the CPU
// keeps it.
absl::StatusOr<TensorMetas> InferLogSigmoid(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMetas metas, InferUnary(in));
  metas.push_back(metas[0]);
  return metas;
}

// _prelu_kernel_backward(grad_output, self, weight)
absl::StatusOr<TensorMetas> InferPreluBackward(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMetas metas, InferTernary(in));
  metas.push_back(metas[0]);
  return metas;
}

constexpr OpRow kRows[] = {
    {"aten.glu.default", "(Tensor self, int dim=-1) -> Tensor", InferGlu,
     kDecompose},
    {"aten.log_sigmoid_forward.default",
     "(Tensor self) -> (Tensor output, Tensor buffer)", InferLogSigmoid,
     kDecompose},
    {"aten.log_sigmoid_backward.default",
     "(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", InferBinary,
     kDecompose},
    {"aten._prelu_kernel.default", "(Tensor self, Tensor weight) -> Tensor",
     InferBinary, kDecompose},
    {"aten._prelu_kernel_backward.default",
     "(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
     InferPreluBackward, kDecompose},
    {"aten.gelu.default", "(Tensor self, *, str approximate='none') -> Tensor",
     InferUnary, kDecompose, kInplace},
    {"aten.gelu_backward.default",
     "(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
     InferBinary, kDecompose},
    {"aten.silu.default", "(Tensor self) -> Tensor", InferUnary, kDecompose,
     kInplace},
    {"aten.silu_backward.default",
     "(Tensor grad_output, Tensor self) -> Tensor", InferBinary, kDecompose},
    {"aten.mish.default", "(Tensor self) -> Tensor", InferUnary, kDecompose,
     kInplace},
    {"aten.mish_backward.default",
     "(Tensor grad_output, Tensor self) -> Tensor", InferBinary, kDecompose},
    {"aten.sigmoid_backward.default",
     "(Tensor grad_output, Tensor output) -> Tensor", InferBinary, kDecompose},
    {"aten.tanh_backward.default",
     "(Tensor grad_output, Tensor output) -> Tensor", InferBinary, kDecompose},
    {"aten.threshold.default",
     "(Tensor self, Scalar threshold, Scalar value) -> Tensor", InferUnary,
     kDecompose, kInplace},
    {"aten.threshold_backward.default",
     "(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
     InferBinary, kDecompose},
    {"aten.elu.default",
     "(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> "
     "Tensor",
     InferUnary, kDecompose, kInplace},
    {"aten.elu_backward.default",
     "(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, "
     "bool is_result, Tensor self_or_result) -> Tensor",
     [](const InferInput& in) -> absl::StatusOr<TensorMetas> {
       const DType dtype = Promote(in, {0, 5}).Result();
       absl::StatusOr<TensorMeta> meta = BroadcastMeta(in, {0, 5}, dtype);
       if (!meta.ok()) return meta.status();
       return TensorMetas{*std::move(meta)};
     },
     kDecompose},
    {"aten.celu.default", "(Tensor self, Scalar alpha=1.0) -> Tensor",
     InferUnary, kDecompose, kInplace},
    {"aten.leaky_relu.default",
     "(Tensor self, Scalar negative_slope=0.01) -> Tensor", InferUnary,
     kDecompose, kInplace},
    {"aten.leaky_relu_backward.default",
     "(Tensor grad_output, Tensor self, Scalar negative_slope, bool "
     "self_is_result) -> Tensor",
     InferBinary, kDecompose},
    {"aten.hardtanh.default",
     "(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", InferUnary,
     kDecompose, kInplace},
    {"aten.hardtanh_backward.default",
     "(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> "
     "Tensor",
     InferBinary, kDecompose},
    {"aten.hardswish.default", "(Tensor self) -> Tensor", InferUnary,
     kDecompose, kInplace},
    {"aten.hardswish_backward.default",
     "(Tensor grad_output, Tensor self) -> Tensor", InferBinary, kDecompose},
    {"aten.hardsigmoid.default", "(Tensor self) -> Tensor", InferUnary,
     kDecompose, kInplace},
    {"aten.hardsigmoid_backward.default",
     "(Tensor grad_output, Tensor self) -> Tensor", InferBinary, kDecompose},
    {"aten.hardshrink.default", "(Tensor self, Scalar lambd=0.5) -> Tensor",
     InferUnary, kDecompose},
    {"aten.hardshrink_backward.default",
     "(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor", InferBinary,
     kDecompose},
    {"aten.softshrink.default", "(Tensor self, Scalar lambd=0.5) -> Tensor",
     InferUnary, kDecompose},
    {"aten.softshrink_backward.default",
     "(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor", InferBinary,
     kDecompose},
    {"aten.softplus.default",
     "(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", InferUnary,
     kDecompose},
    {"aten.softplus_backward.default",
     "(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> "
     "Tensor",
     InferBinary, kDecompose},
};

}  // namespace

absl::Span<const OpRow> ActivationOps() { return kRows; }

}  // namespace kiln
