#ifndef KILN_COMPILER_GRAPH_ELEMENTWISE_RULES_H_
#define KILN_COMPILER_GRAPH_ELEMENTWISE_RULES_H_

// Inference of elementwise operators, shared by the families that have some.

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/graph/op_def.h"
#include "compiler/graph/type_promotion.h"

namespace kiln {

// The result of broadcasting the parameters `params` that hold tensors; numbers
// among them have no sizes.
absl::StatusOr<TensorMeta> BroadcastMeta(const InferInput& in,
                                         absl::Span<const size_t> params,
                                         DType dtype);
// The promoted dtype of the parameters.
TypePromotion Promote(const InferInput& in, absl::Span<const size_t> params);

// One tensor in front, the result like it.
absl::StatusOr<TensorMetas> InferUnary(const InferInput& in);       // its dtype
absl::StatusOr<TensorMetas> InferUnaryFloat(const InferInput& in);  // ints: f32
absl::StatusOr<TensorMetas> InferUnaryBool(const InferInput& in);

// Two tensors or numbers in front.
absl::StatusOr<TensorMetas> InferBinary(const InferInput& in);
absl::StatusOr<TensorMetas> InferBinaryFloat(const InferInput& in);
absl::StatusOr<TensorMetas> InferCompare(const InferInput& in);

// Three.
absl::StatusOr<TensorMetas> InferTernary(const InferInput& in);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_ELEMENTWISE_RULES_H_
