// Elementwise operators of two tensors, or of a tensor and a number.

#include <utility>

#include "compiler/graph/elementwise_rules.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;
constexpr auto kInplace = OpRow::Inplace::kYes;
constexpr absl::string_view kTensorTensor =
    "(Tensor self, Tensor other) -> Tensor";
constexpr absl::string_view kTensorScalar =
    "(Tensor self, Scalar other) -> Tensor";
constexpr absl::string_view kTensorTensorAlpha =
    "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
constexpr absl::string_view kTensorScalarAlpha =
    "(Tensor self, Scalar other, Scalar alpha=1) -> Tensor";
constexpr absl::string_view kTensorTensorMode =
    "(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor";
constexpr absl::string_view kTensorScalarMode =
    "(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor";

// Without a rounding mode a true division.
absl::StatusOr<TensorMetas> InferDivideMode(const InferInput& in) {
  return in.has(2) ? InferBinary(in) : InferBinaryFloat(in);
}

// bool - bool is refused, as in PyTorch.
absl::StatusOr<TensorMetas> InferSubtract(const InferInput& in) {
  if (Promote(in, {0, 1}).Result() == DType::kBool) {
    return Malformed("subtraction of bool from bool");
  }
  return InferBinary(in);
}

absl::StatusOr<TensorMetas> InferPowScalarBase(const InferInput& in) {
  return InferBinary(in);
}

// Bits have no floats.
absl::StatusOr<TensorMetas> InferBitwise(const InferInput& in) {
  if (IsFloat(Promote(in, {0, 1}).Result())) {
    return Malformed("bits of a float operand, expected integers or bools");
  }
  return InferBinary(in);
}

constexpr OpRow kRows[] = {
    {"aten.add.Tensor", kTensorTensorAlpha, InferBinary, kLower, kInplace},
    {"aten.add.Scalar", kTensorScalarAlpha, InferBinary, kLower, kInplace},
    {"aten.sub.Tensor", kTensorTensorAlpha, InferSubtract, kLower, kInplace},
    {"aten.sub.Scalar", kTensorScalarAlpha, InferSubtract, kLower, kInplace},
    {"aten.rsub.Tensor", kTensorTensorAlpha, InferSubtract, kLower},
    {"aten.rsub.Scalar", kTensorScalarAlpha, InferSubtract, kLower},
    {"aten.mul.Tensor", kTensorTensor, InferBinary, kLower, kInplace},
    {"aten.mul.Scalar", kTensorScalar, InferBinary, kLower, kInplace},
    {"aten.div.Tensor", kTensorTensor, InferBinaryFloat, kLower, kInplace},
    {"aten.div.Scalar", kTensorScalar, InferBinaryFloat, kLower, kInplace},
    {"aten.div.Tensor_mode", kTensorTensorMode, InferDivideMode, kLower,
     kInplace},
    {"aten.div.Scalar_mode", kTensorScalarMode, InferDivideMode, kLower,
     kInplace},
    {"aten.true_divide.Tensor", kTensorTensor, InferBinaryFloat, kLower},
    {"aten.floor_divide.default", kTensorTensor, InferBinary, kLower},
    {"aten.floor_divide.Scalar", kTensorScalar, InferBinary, kLower},
    {"aten.remainder.Tensor", kTensorTensor, InferBinary, kLower, kInplace},
    {"aten.remainder.Scalar", kTensorScalar, InferBinary, kLower, kInplace},
    {"aten.fmod.Tensor", kTensorTensor, InferBinary, kLower, kInplace},
    {"aten.fmod.Scalar", kTensorScalar, InferBinary, kLower, kInplace},

    {"aten.pow.Tensor_Tensor", "(Tensor self, Tensor exponent) -> Tensor",
     InferBinary, kLower},
    {"aten.pow.Tensor_Scalar", "(Tensor self, Scalar exponent) -> Tensor",
     InferBinary, kLower},
    {"aten.pow.Scalar", "(Scalar self, Tensor exponent) -> Tensor",
     InferPowScalarBase, kLower},
    {"aten.pow_.Tensor", "(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
     InferBinary, Handling::kMutate},
    {"aten.pow_.Scalar", "(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
     InferBinary, Handling::kMutate},
    {"aten.floor_divide_.Tensor",
     "(Tensor(a!) self, Tensor other) -> Tensor(a!)", InferBinary,
     Handling::kMutate},

    {"aten.atan2.default", kTensorTensor, InferBinaryFloat, kLower, kInplace},
    {"aten.hypot.default", kTensorTensor, InferBinary, kLower, kInplace},
    {"aten.nextafter.default", kTensorTensor, InferBinary, kLower, kInplace},
    {"aten.copysign.Tensor", kTensorTensor, InferBinaryFloat, kLower, kInplace},
    {"aten.copysign.Scalar", kTensorScalar, InferBinaryFloat, kLower},
    {"aten.ldexp.Tensor", kTensorTensor, InferBinaryFloat, Handling::kDecompose,
     kInplace},
    {"aten.special_xlog1py.default", kTensorTensor, InferBinaryFloat,
     Handling::kDecompose},
    {"aten.xlogy.Tensor", kTensorTensor, InferBinaryFloat, kLower, kInplace},
    {"aten.logaddexp.default", kTensorTensor, InferBinary, kLower},
    {"aten.logaddexp2.default", kTensorTensor, InferBinary, kLower},
    {"aten.maximum.default", kTensorTensor, InferBinary, kLower},
    {"aten.minimum.default", kTensorTensor, InferBinary, kLower},
    {"aten.fmax.default", kTensorTensor, InferBinary, kLower},
    {"aten.fmin.default", kTensorTensor, InferBinary, kLower},
    {"aten.heaviside.default", "(Tensor self, Tensor values) -> Tensor",
     InferBinary, kLower, kInplace},

    {"aten.bitwise_and.Tensor", kTensorTensor, InferBitwise, kLower, kInplace},
    {"aten.bitwise_and.Scalar", kTensorScalar, InferBitwise, kLower, kInplace},
    {"aten.bitwise_or.Tensor", kTensorTensor, InferBitwise, kLower, kInplace},
    {"aten.bitwise_or.Scalar", kTensorScalar, InferBitwise, kLower, kInplace},
    {"aten.bitwise_xor.Tensor", kTensorTensor, InferBitwise, kLower, kInplace},
    {"aten.bitwise_xor.Scalar", kTensorScalar, InferBitwise, kLower, kInplace},
    {"aten.bitwise_left_shift.Tensor", kTensorTensor, InferBitwise, kLower},
    {"aten.bitwise_right_shift.Tensor", kTensorTensor, InferBitwise, kLower},

    {"aten.eq.Tensor", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.eq.Scalar", kTensorScalar, InferCompare, kLower, kInplace},
    {"aten.ne.Tensor", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.ne.Scalar", kTensorScalar, InferCompare, kLower, kInplace},
    {"aten.lt.Tensor", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.lt.Scalar", kTensorScalar, InferCompare, kLower, kInplace},
    {"aten.le.Tensor", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.le.Scalar", kTensorScalar, InferCompare, kLower, kInplace},
    {"aten.gt.Tensor", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.gt.Scalar", kTensorScalar, InferCompare, kLower, kInplace},
    {"aten.ge.Tensor", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.ge.Scalar", kTensorScalar, InferCompare, kLower, kInplace},
    {"aten.logical_and.default", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.logical_or.default", kTensorTensor, InferCompare, kLower, kInplace},
    {"aten.logical_xor.default", kTensorTensor, InferCompare, kLower, kInplace},
};

}  // namespace

absl::Span<const OpRow> BinaryOps() { return kRows; }

}  // namespace kiln
