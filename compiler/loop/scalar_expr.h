#ifndef KILN_COMPILER_LOOP_SCALAR_EXPR_H_
#define KILN_COMPILER_LOOP_SCALAR_EXPR_H_

// The body of a loop nest: a DAG of scalar operations as data, in order of
// definition. Node i reads only nodes before it. All arithmetic of generated code is
// one of these operations; two writers turn them into CUDA and C++.
//
// Types: every node is computed in its dtype. Only kLoad, kCast and the value of a store
// have half types. Arithmetic on half types is float32 and only stores round, as in
// Inductor.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "compiler/sym/sym_expr.h"
#include "proto/base/dtype.h"

namespace kiln {

using ScalarId = uint32_t;  // index in LoopNest::body
using BufferId = uint32_t;  // index in LoopProgram::buffers

enum class ScalarOp : uint8_t {
  // Leaves.
  kConstant,  // `number`
  kIndex,     // value of `index[0]`, an i64 or an i32
  kLoad,  // buffer[index...]; args: [] or [mask]: where mask is false nothing is read and the value is `number`
  kSeed,  // the run's seed, an i64 holding the 64 bits
  kRandom,  // args: seed, i64 index; `number.i`: RandomNumber; uniform f32 in [0, 1): Philox4x32-10

  // Arithmetic. Integers wrap around.
  kAdd,
  kSub,
  kMul,
  kDiv,        // floats
  kFloorDiv,   // integers and floats, towards minus infinity
  kTruncDiv,   // integers, towards zero
  kRemainder,  // sign of the divisor
  kFmod,       // sign of the dividend
  kPow,
  kAtan2,
  kCopySign,
  kNextAfter,
  kHypot,
  kMaximum,
  kMinimum,  // NaN wins
  kFma,
  kRoundFloat16,  // float32, to the nearest value that the half type has
  kRoundBFloat16,
  kNeg,
  kAbs,
  kSign,
  kReciprocal,
  kSquare,
  kSqrt,
  kRsqrt,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kErfc,
  kErfinv,
  kLgamma,
  kDigamma,
  kSigmoid,
  kFloor,
  kCeil,
  kTrunc,
  kRound,  // half to even
  kIsNan,
  kIsInf,
  kSignBit,

  // Comparisons give bool.
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  // On bool: logic. On integers: bits.
  kAnd,
  kOr,
  kXor,
  kNot,
  kShiftLeft,
  kShiftRight,

  kWhere,  // args: condition, then, else; both sides are evaluated
  kCast,  // C's rules; float to bool is != 0; to a half type rounds to nearest even
  kBitcast,

  // Checks a loaded index of a dimension. args: the index and the dimension's size,
  // both i64[, mask]. If the index is out of range and the mask, if any, is true, the
  // run ends with an error. The value is 0 then, so nothing out of bounds is accessed
  // before that. A dimension of size 0 has no index, so if the size may be 0, accesses
  // at the value must be masked.
  kCheckIndex,  // inside: [0, size)
  kWrapIndex,   // inside: [-size, size); negative ones count from the end

  // Reduces over the nest's reduction axes; all of their points have the same result.
  // args: one value (two for kArgMax/kArgMin with an explicit index).
  kReduce,  // `reduce` says how; kReduceResult reads further members of a tuple
  kReduceResult,  // args: a kReduce; `number.i`: which member of its tuple (0 is kReduce itself)
  // Inclusive running combine along the last reduction axis.
  kScan,
  // An i64: the position of the value that comes here when the values along the last
  // reduction axis are sorted, ascending for kMin, descending for kMax. NaN is the
  // largest; the sort is stable. Only the first `number.i` positions are needed; 0: all.
  kSort,
  // An i32: how many points before this one along the last reduction axis have
  // the same value, an i32 in [0, `number.i`).
  kTally,

  // Only in the body of a contraction (contraction.h).
  kFactor,  // a leaf: an element of what is read, operand `number.i` of the two
  kContract,  // args: two; the sum of what they multiply to
};

// How a reduction combines. Tuples, whose further members kReduceResult reads:
//   kArgMax, kArgMin  (value, i64 index): the first of equals, NaN first
//   kSoftmax          (max, sum of exp(x - max))
//   kMoments          (sum, mean, sum of squared differences from the mean)
// The last two are float32. Each replaces two reductions, of which the second needs the
// first, by a single pass over the data.
enum class ReduceOp : uint8_t {
  kNone,
  kSum,
  kProd,
  kMax,
  kMin,
  kAny,
  kAll,
  kXor,
  kLogSumExp,  // log(exp(a) + exp(b)), of float32 and float64
  kArgMax,
  kArgMin,
  kSoftmax,
  kMoments,
};

// kArgMax and kArgMin.
inline bool IsArgReduction(ReduceOp op) {
  return op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
}
// Reductions to a tuple of more than one member.
inline bool IsTupleReduction(ReduceOp op) {
  return IsArgReduction(op) || op == ReduceOp::kSoftmax ||
         op == ReduceOp::kMoments;
}

// A constant's bits, by the node's dtype: float types hold `f`, others `i`.
union Number {
  double f;
  int64_t i;
};

struct ScalarNode {
  ScalarOp op;
  DType dtype;
  ReduceOp reduce = ReduceOp::kNone;
  Number number{.i = 0};
  absl::InlinedVector<ScalarId, 3> args = {};
  BufferId buffer = 0;  // kLoad
  bool last_read =
      false;  // kLoad in a plan: nothing needs the element afterwards
  DimVector
      index;  // kLoad: one a dimension of the buffer; kIndex: one. May hold Var kIndirect: an integer node before this one

  friend bool operator==(const ScalarNode& a, const ScalarNode& b) {
    return a.op == b.op && a.dtype == b.dtype && a.reduce == b.reduce &&
           a.number.i == b.number.i && a.args == b.args &&
           a.buffer == b.buffer && a.last_read == b.last_read &&
           a.index == b.index;
  }
};

// Distinguishes the random operators of a graph: a stream, and a number that is added to
// the seed first. Both fit in 31 bits. It is an argument of the kernel, so that equal
// random operators share one kernel.
constexpr int64_t RandomNumber(int64_t stream, int64_t added_to_seed) {
  return stream | added_to_seed << 32;
}

// "add", "maximum", "reduce": the names in loop text and in names of kernels.
absl::string_view ScalarOpName(ScalarOp op);
absl::string_view ReduceOpName(ReduceOp op);
std::optional<ScalarOp> ScalarOpFromName(absl::string_view name);
std::optional<ReduceOp> ReduceOpFromName(absl::string_view name);

bool IsComparison(ScalarOp op);
// kLt, kLe, kGt and kGe.
bool IsOrderComparison(ScalarOp op);
// Whether a value depends on other points of the nest: kReduce, kReduceResult and those
// of IsAlongRow.
bool IsReduction(ScalarOp op);
// kScan, kSort and kTally: each point of the last reduction axis has its own result,
// which depends on the other points.
bool IsAlongRow(ScalarOp op);
// kCheckIndex and kWrapIndex.
bool IsIndexCheck(ScalarOp op);
// Whether an operation takes tens of instructions, so that its result is worth keeping.
bool IsCostly(ScalarOp op);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_SCALAR_EXPR_H_
