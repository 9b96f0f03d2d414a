#ifndef KILN_COMPILER_CODEGEN_SCALAR_TEXT_H_
#define KILN_COMPILER_CODEGEN_SCALAR_TEXT_H_

// Scalar operations as C text, for all dialects. Text that is the same in all of them
// is in one table. Functions named k_... are those of the preludes.
//
// A value of a half type is its bits in an unsigned short. Only loads, stores, casts and
// choices have such operands; other operations use float.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/loop/scalar_expr.h"

namespace kiln {

enum class Dialect : uint8_t {
  kCuda,  // one value per thread
  // The same with a relative error up to 2^-18, for results that are rounded to half types.
  kCudaApproximate,
  kCpu,       // one value
  kCpuLanes,  // a GNU vector of values, K_LANES long; bool is 0 or -1 in i32
};

// The C type of one value, in registers and in memory: "float", "long long", "unsigned
// short" for half types.
absl::string_view CTypeName(DType dtype);
// The type of a vector of K_LANES values: "kv_f32".
std::string LaneTypeName(DType dtype);
// The ending of k_ functions for a dtype: "f32"; "b" for bool.
absl::string_view TypeEnding(DType dtype);

// A literal of `dtype`; the bits for a half type. A single value in every dialect.
std::string ConstantText(DType dtype, Number number);

// The text of `node`, given the texts of its arguments in the same dialect. `from` is the
// dtype of the first argument that is not a condition.
//
// Errors: INTERNAL for leaves, reductions and scans; UNSUPPORTED_OP names an operation
// that its type does not support.
absl::StatusOr<std::string> OperationText(const ScalarNode& node, DType from,
                                          absl::Span<const std::string> args,
                                          Dialect dialect);

// `value` of type `from`, converted to type `to`.
std::string CastText(DType from, DType to, const std::string& value,
                     Dialect dialect);

// In CUDA, the float32 `of` divided by a constant, without a branch. Empty if that gains
// nothing or is not exact.
std::string QuotientText(const std::string& of, double by);

// One step of a reduction, and its neutral element, which is a single value in every
// dialect. Not for tuples. Errors: UNSUPPORTED_OP as above.
absl::StatusOr<std::string> CombineText(ReduceOp op, DType dtype,
                                        const std::string& a,
                                        const std::string& b);
std::string IdentityText(ReduceOp op, DType dtype);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_SCALAR_TEXT_H_
