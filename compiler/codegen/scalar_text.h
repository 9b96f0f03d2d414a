#ifndef KILN_COMPILER_CODEGEN_SCALAR_TEXT_H_
#define KILN_COMPILER_CODEGEN_SCALAR_TEXT_H_

// One scalar operation as C text, in the two dialects. Everything that both
// write alike stands in one table; functions named k_... are of the preludes.
//
// Values of half types are their bits in an unsigned short; every operation
// but a load, a store, a cast and a choice takes them through float.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/loop/scalar_expr.h"

namespace kiln {

enum class Dialect : uint8_t {
  kCuda,             // one value a thread
  kCudaApproximate,  // the same within 2^-18 of its value, for results that are rounded to half types
  kCpu,              // one value
  kCpuLanes,  // a GNU vector of values, K_LANES long; bool is 0 or -1 in i32
};

// "float", "long long", "unsigned short" for halves: the C type of one value,
// which is also its type in memory.
absl::string_view CTypeName(DType dtype);
// "kv_f32": the vector of K_LANES of them.
std::string LaneTypeName(DType dtype);
// "f32"; "b" for bool: the ending of k_ functions.
absl::string_view TypeEnding(DType dtype);

// A literal of `dtype`; for halves their bits. One value in every dialect.
std::string ConstantText(DType dtype, Number number);

// The text of `node` over the texts of its arguments, all of the dialect's
// kind. `from` is the dtype of its first argument that is not a condition.
// Leaves, reductions and scans are not operations: INTERNAL.
// UNSUPPORTED_OP names an operation that the type has not.
absl::StatusOr<std::string> OperationText(const ScalarNode& node, DType from,
                                          absl::Span<const std::string> args,
                                          Dialect dialect);

// `value` of type `from` as a `to`.
std::string CastText(DType from, DType to, const std::string& value,
                     Dialect dialect);

// float32 `of` divided by a constant without a branch, in CUDA; empty where that
// gains nothing or is not exact.
std::string QuotientText(const std::string& of, double by);

// One step of a reduction, and the value it starts with (one value in every
// dialect). Not for tuples. UNSUPPORTED_OP as above.
absl::StatusOr<std::string> CombineText(ReduceOp op, DType dtype,
                                        const std::string& a,
                                        const std::string& b);
std::string IdentityText(ReduceOp op, DType dtype);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_SCALAR_TEXT_H_
