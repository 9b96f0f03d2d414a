#include "compiler/graph/elementwise_rules.h"

#include <utility>

#include "compiler/graph/layout_rules.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<TensorMeta> BroadcastMeta(const InferInput& in,
                                         absl::Span<const size_t> params,
                                         DType dtype) {
  MetaPointers operands;
  absl::InlinedVector<const DimVector*, 4> sizes;
  for (const size_t i : params) {
    if (!in.is_tensor(i)) continue;
    operands.push_back(&in.tensor(i));
    sizes.push_back(&in.tensor(i).sizes);
  }
  TensorMeta meta;
  meta.dtype = dtype;
  ASSIGN_OR_RETURN(meta.sizes, BroadcastSizes(sizes, in.shapes));
  meta.strides = ElementwiseStrides(meta.sizes, operands, in.shapes);
  return meta;
}

TypePromotion Promote(const InferInput& in, absl::Span<const size_t> params) {
  TypePromotion promotion;
  for (const size_t i : params) promotion.Add(in.args[i], in.meta_of);
  return promotion;
}

absl::StatusOr<TensorMetas> InferUnary(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, BroadcastMeta(in, {0}, in.tensor(0).dtype));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferUnaryFloat(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta,
                   BroadcastMeta(in, {0}, Promote(in, {0}).FloatResult()));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferUnaryBool(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, BroadcastMeta(in, {0}, DType::kBool));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferBinary(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta,
                   BroadcastMeta(in, {0, 1}, Promote(in, {0, 1}).Result()));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferBinaryFloat(const InferInput& in) {
  ASSIGN_OR_RETURN(
      TensorMeta meta,
      BroadcastMeta(in, {0, 1}, Promote(in, {0, 1}).FloatResult()));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferCompare(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, BroadcastMeta(in, {0, 1}, DType::kBool));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferTernary(const InferInput& in) {
  ASSIGN_OR_RETURN(
      TensorMeta meta,
      BroadcastMeta(in, {0, 1, 2}, Promote(in, {0, 1, 2}).Result()));
  return TensorMetas{std::move(meta)};
}

}  // namespace kiln
