#ifndef KILN_COMPILER_GRAPH_INFER_META_H_
#define KILN_COMPILER_GRAPH_INFER_META_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/graph/op_def.h"

namespace kiln {

// The metas of all results of `op`, in order, for arguments that BindArguments
// gave. An in-place form gives the meta of its first argument, whose sizes must
// be those that the functional form computes.
//
// Errors:
//   MALFORMED_GRAPH  shapes or dtypes that the operator refuses
//   UNSUPPORTED_OP   an argument or dtype that Kiln does not compute with
//   TOO_LARGE        a result of 2^40 elements or 65 dimensions or more
absl::StatusOr<TensorMetas> InferMeta(
    const OpDef& op, absl::Span<const Argument> args,
    absl::FunctionRef<const TensorMeta&(const Argument&)> meta_of,
    ShapeEnv& shapes, DeviceType device);

// A tensor of more elements is refused at the door.
inline constexpr int64_t kMaxElements = int64_t{1} << 40;

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_INFER_META_H_
