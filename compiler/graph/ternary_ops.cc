// Elementwise operators of three tensors or numbers, and choices.

#include <utility>

#include "compiler/graph/elementwise_rules.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "compiler/graph/type_promotion.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;
constexpr auto kInplace = OpRow::Inplace::kYes;

absl::StatusOr<TensorMetas> InferWhere(const InferInput& in) {
  const DType condition = in.tensor(0).dtype;
  if (condition != DType::kBool && condition != DType::kUInt8) {
    return Malformed("condition is not bool");
  }
  ASSIGN_OR_RETURN(TensorMeta meta,
                   BroadcastMeta(in, {0, 1, 2}, Promote(in, {1, 2}).Result()));
  return TensorMetas{std::move(meta)};
}

// The bounds promote the result, and None is no bound.
absl::StatusOr<TensorMetas> InferClamp(const InferInput& in) {
  ASSIGN_OR_RETURN(
      TensorMeta meta,
      BroadcastMeta(in, {0, 1, 2}, Promote(in, {0, 1, 2}).Result()));
  return TensorMetas{std::move(meta)};
}

// The mask says where, the value what: the dtype is self's.
absl::StatusOr<TensorMetas> InferMaskedFill(const InferInput& in) {
  if (in.tensor(1).dtype != DType::kBool) {
    return Malformed("mask is not bool");
  }
  ASSIGN_OR_RETURN(TensorMeta meta,
                   BroadcastMeta(in, {0, 1}, in.tensor(0).dtype));
  return TensorMetas{std::move(meta)};
}

// aten.copy and aten.fill: self with other contents.
absl::StatusOr<TensorMetas> InferOverwrite(const InferInput& in) {
  return TensorMetas{MetaLike(in.tensor(0), in.shapes)};
}

absl::StatusOr<TensorMetas> InferCopy(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(
      const DimVector sizes,
      BroadcastSizes({&self.sizes, &in.tensor(1).sizes}, in.shapes));
  if (!SameSizes(sizes, self.sizes, in.shapes)) {
    return Malformed("source does not broadcast to self");
  }
  return InferOverwrite(in);
}

constexpr absl::string_view kScaled =
    "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> "
    "Tensor";

constexpr OpRow kRows[] = {
    {"aten.where.self",
     "(Tensor condition, Tensor self, Tensor other) -> Tensor", InferWhere,
     kLower},
    {"aten.where.ScalarOther",
     "(Tensor condition, Tensor self, Scalar other) -> Tensor", InferWhere,
     kLower},
    {"aten.where.ScalarSelf",
     "(Tensor condition, Scalar self, Tensor other) -> Tensor", InferWhere,
     kLower},
    {"aten.clamp.default",
     "(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", InferClamp,
     kLower, kInplace},
    {"aten.clamp.Tensor",
     "(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", InferClamp,
     kLower, kInplace},
    {"aten.clamp_min.default", "(Tensor self, Scalar min) -> Tensor",
     InferBinary, kLower, kInplace},
    {"aten.clamp_min.Tensor", "(Tensor self, Tensor min) -> Tensor",
     InferBinary, kLower, kInplace},
    {"aten.clamp_max.default", "(Tensor self, Scalar max) -> Tensor",
     InferBinary, kLower, kInplace},
    {"aten.clamp_max.Tensor", "(Tensor self, Tensor max) -> Tensor",
     InferBinary, kLower, kInplace},
    {"aten.masked_fill.Scalar",
     "(Tensor self, Tensor mask, Scalar value) -> Tensor", InferMaskedFill,
     kLower, kInplace},
    {"aten.masked_fill.Tensor",
     "(Tensor self, Tensor mask, Tensor value) -> Tensor", InferMaskedFill,
     kLower, kInplace},
    {"aten.lerp.Scalar", "(Tensor self, Tensor end, Scalar weight) -> Tensor",
     InferBinary, kLower, kInplace},
    {"aten.lerp.Tensor", "(Tensor self, Tensor end, Tensor weight) -> Tensor",
     InferTernary, kLower, kInplace},
    {"aten.addcmul.default", kScaled, InferTernary, kLower, kInplace},
    {"aten.addcdiv.default", kScaled, InferTernary, kLower, kInplace},
    // What Dynamo of torch 2.15 writes for addcmul_ and addcdiv_ with a value.
    {"prims.fma.default", "(Tensor a, Tensor b, Tensor c) -> Tensor",
     InferTernary, kLower},
    {"aten.fill.Scalar", "(Tensor self, Scalar value) -> Tensor",
     InferOverwrite, kLower, kInplace},
    {"aten.fill.Tensor", "(Tensor self, Tensor value) -> Tensor",
     InferOverwrite, kLower, kInplace},
    {"aten.zero.default", "(Tensor self) -> Tensor", InferOverwrite, kLower,
     kInplace},
    {"aten.copy.default",
     "(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", InferCopy,
     kLower, kInplace},
};

}  // namespace

absl::Span<const OpRow> TernaryOps() { return kRows; }

}  // namespace kiln
