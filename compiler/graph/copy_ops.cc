// Copies and casts.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/elementwise_rules.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;

TensorMetas CopyOf(const InferInput& in, DType dtype, size_t format_at) {
  const TensorMeta& self = in.tensor(0);
  const auto* format = std::get_if<MemoryFormat>(&in.args[format_at].v);
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = self.sizes;
  meta.strides = LikeStrides(
      self, format == nullptr ? MemoryFormat::kPreserve : *format, in.shapes);
  return {std::move(meta)};
}

absl::StatusOr<TensorMetas> InferClone(const InferInput& in) {
  return CopyOf(in, in.tensor(0).dtype, 1);
}

absl::StatusOr<TensorMetas> InferToCopy(const InferInput& in) {
  return CopyOf(in, in.dtype(1).value_or(in.tensor(0).dtype), 6);
}

absl::StatusOr<TensorMetas> InferConvert(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, BroadcastMeta(in, {0}, *in.dtype(1)));
  return TensorMetas{std::move(meta)};
}

// round_to(a, dtype): values of a half type, kept as float32. A cast there and
// back is free to keep what it would round away.
absl::StatusOr<TensorMetas> InferRoundTo(const InferInput& in) {
  if (in.tensor(0).dtype != DType::kFloat32 || !IsHalf(*in.dtype(1)))
    return MakeError(ErrorReason::kMalformedGraph,
                     "round_to: expected a float32 tensor and a half type");
  ASSIGN_OR_RETURN(TensorMeta meta, BroadcastMeta(in, {0}, DType::kFloat32));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferLiftFresh(const InferInput& in) {
  return TensorMetas{MetaLike(in.tensor(0), in.shapes)};
}

// copy_strided(a, stride): laid out so.
absl::StatusOr<TensorMetas> InferCopyStrided(const InferInput& in) {
  TensorMeta meta;
  meta.dtype = in.tensor(0).dtype;
  meta.sizes = in.tensor(0).sizes;
  meta.strides = in.ints(1);
  if (meta.strides.size() != meta.sizes.size())
    return MakeError(ErrorReason::kMalformedGraph,
                     absl::StrCat("copy_strided: expected ", meta.sizes.size(),
                                  " strides, got ", meta.strides.size()));
  for (const SymExpr& stride : meta.strides)
    if (stride.is_constant() && stride.constant() < 1)
      return MakeError(
          ErrorReason::kMalformedGraph,
          absl::StrCat("copy_strided: expected strides of 1 or more, "
                       "got ",
                       stride.constant()));
  return TensorMetas{std::move(meta)};
}

// native_dropout(input, p, train): the result and its mask.
absl::StatusOr<TensorMetas> InferDropout(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta out, BroadcastMeta(in, {0}, in.tensor(0).dtype));
  TensorMeta mask = out;
  mask.dtype = DType::kBool;
  return TensorMetas{std::move(out), std::move(mask)};
}

// grad_output * mask * scale: the scale makes integers floats.
absl::StatusOr<TensorMetas> InferDropoutBackward(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta,
                   BroadcastMeta(in, {0, 1}, Promote(in, {0}).FloatResult()));
  return TensorMetas{std::move(meta)};
}

constexpr OpRow kRows[] = {
    {"aten.clone.default",
     "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", InferClone,
     kLower},
    {"aten._to_copy.default",
     "(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None, bool non_blocking=False, "
     "MemoryFormat? memory_format=None) -> Tensor",
     InferToCopy, kLower},
    {"prims.convert_element_type.default",
     "(Tensor a, ScalarType dtype) -> Tensor", InferConvert, kLower},
    {"prims.round_to.default", "(Tensor a, ScalarType dtype) -> Tensor",
     InferRoundTo, kLower},
    {"aten.lift_fresh_copy.default", "(Tensor self) -> Tensor", InferLiftFresh,
     kLower},
    {"prims.copy_strided.default", "(Tensor a, SymInt[] stride) -> Tensor",
     InferCopyStrided, kLower},
    {"aten.native_dropout.default",
     "(Tensor input, float p, bool? train) -> (Tensor, Tensor)", InferDropout,
     kLower},
    {"aten.native_dropout_backward.default",
     "(Tensor grad_output, Tensor mask, float scale) -> Tensor",
     InferDropoutBackward, kLower},
};

}  // namespace

absl::Span<const OpRow> CopyOps() { return kRows; }

}  // namespace kiln
