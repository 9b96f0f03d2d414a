#include "compiler/loop/scalar_expr.h"

namespace kiln {

namespace {

struct OpText {
  ScalarOp op;
  absl::string_view name;
};

// In order of the enum.
constexpr OpText kOps[] = {
    {ScalarOp::kConstant, "constant"},
    {ScalarOp::kIndex, "index"},
    {ScalarOp::kLoad, "load"},
    {ScalarOp::kSeed, "seed"},
    {ScalarOp::kRandom, "random"},
    {ScalarOp::kAdd, "add"},
    {ScalarOp::kSub, "sub"},
    {ScalarOp::kMul, "mul"},
    {ScalarOp::kDiv, "div"},
    {ScalarOp::kFloorDiv, "floor_div"},
    {ScalarOp::kTruncDiv, "trunc_div"},
    {ScalarOp::kRemainder, "remainder"},
    {ScalarOp::kFmod, "fmod"},
    {ScalarOp::kPow, "pow"},
    {ScalarOp::kAtan2, "atan2"},
    {ScalarOp::kCopySign, "copysign"},
    {ScalarOp::kNextAfter, "nextafter"},
    {ScalarOp::kHypot, "hypot"},
    {ScalarOp::kMaximum, "maximum"},
    {ScalarOp::kMinimum, "minimum"},
    {ScalarOp::kFma, "fma"},
    {ScalarOp::kRoundFloat16, "round_f16"},
    {ScalarOp::kRoundBFloat16, "round_bf16"},
    {ScalarOp::kNeg, "neg"},
    {ScalarOp::kAbs, "abs"},
    {ScalarOp::kSign, "sign"},
    {ScalarOp::kReciprocal, "reciprocal"},
    {ScalarOp::kSquare, "square"},
    {ScalarOp::kSqrt, "sqrt"},
    {ScalarOp::kRsqrt, "rsqrt"},
    {ScalarOp::kExp, "exp"},
    {ScalarOp::kExp2, "exp2"},
    {ScalarOp::kExpm1, "expm1"},
    {ScalarOp::kLog, "log"},
    {ScalarOp::kLog2, "log2"},
    {ScalarOp::kLog10, "log10"},
    {ScalarOp::kLog1p, "log1p"},
    {ScalarOp::kSin, "sin"},
    {ScalarOp::kCos, "cos"},
    {ScalarOp::kTan, "tan"},
    {ScalarOp::kAsin, "asin"},
    {ScalarOp::kAcos, "acos"},
    {ScalarOp::kAtan, "atan"},
    {ScalarOp::kSinh, "sinh"},
    {ScalarOp::kCosh, "cosh"},
    {ScalarOp::kTanh, "tanh"},
    {ScalarOp::kAsinh, "asinh"},
    {ScalarOp::kAcosh, "acosh"},
    {ScalarOp::kAtanh, "atanh"},
    {ScalarOp::kErf, "erf"},
    {ScalarOp::kErfc, "erfc"},
    {ScalarOp::kErfinv, "erfinv"},
    {ScalarOp::kLgamma, "lgamma"},
    {ScalarOp::kDigamma, "digamma"},
    {ScalarOp::kSigmoid, "sigmoid"},
    {ScalarOp::kFloor, "floor"},
    {ScalarOp::kCeil, "ceil"},
    {ScalarOp::kTrunc, "trunc"},
    {ScalarOp::kRound, "round"},
    {ScalarOp::kIsNan, "isnan"},
    {ScalarOp::kIsInf, "isinf"},
    {ScalarOp::kSignBit, "signbit"},
    {ScalarOp::kEq, "eq"},
    {ScalarOp::kNe, "ne"},
    {ScalarOp::kLt, "lt"},
    {ScalarOp::kLe, "le"},
    {ScalarOp::kGt, "gt"},
    {ScalarOp::kGe, "ge"},
    {ScalarOp::kAnd, "and"},
    {ScalarOp::kOr, "or"},
    {ScalarOp::kXor, "xor"},
    {ScalarOp::kNot, "not"},
    {ScalarOp::kShiftLeft, "shl"},
    {ScalarOp::kShiftRight, "shr"},
    {ScalarOp::kWhere, "where"},
    {ScalarOp::kCast, "cast"},
    {ScalarOp::kBitcast, "bitcast"},
    {ScalarOp::kCheckIndex, "check_index"},
    {ScalarOp::kWrapIndex, "wrap_index"},
    {ScalarOp::kReduce, "reduce"},
    {ScalarOp::kReduceResult, "reduce_result"},
    {ScalarOp::kScan, "scan"},
    {ScalarOp::kSort, "sort"},
    {ScalarOp::kTally, "tally"},
    {ScalarOp::kFactor, "factor"},
    {ScalarOp::kContract, "contract"},
};

constexpr absl::string_view kReductions[] = {
    "none", "sum",       "prod",   "max",    "min",     "any",    "all",
    "xor",  "logsumexp", "argmax", "argmin", "softmax", "moments"};

constexpr bool InOrder() {
  for (int i = 0; i <= static_cast<int>(ScalarOp::kContract); ++i) {
    if (static_cast<int>(kOps[i].op) != i) return false;
  }
  return true;
}
static_assert(InOrder(), "kOps stands in order of ScalarOp");

}  // namespace

absl::string_view ScalarOpName(ScalarOp op) {
  return kOps[static_cast<int>(op)].name;
}

absl::string_view ReduceOpName(ReduceOp op) {
  return kReductions[static_cast<int>(op)];
}

std::optional<ScalarOp> ScalarOpFromName(absl::string_view name) {
  for (const OpText& row : kOps) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

std::optional<ReduceOp> ReduceOpFromName(absl::string_view name) {
  int i = 0;
  for (const absl::string_view reduction : kReductions) {
    if (reduction == name) return static_cast<ReduceOp>(i);
    ++i;
  }
  return std::nullopt;
}

bool IsComparison(ScalarOp op) {
  return op >= ScalarOp::kEq && op <= ScalarOp::kGe;
}

bool IsOrderComparison(ScalarOp op) {
  return op >= ScalarOp::kLt && op <= ScalarOp::kGe;
}

bool IsReduction(ScalarOp op) {
  return op == ScalarOp::kReduce || op == ScalarOp::kReduceResult ||
         IsAlongRow(op);
}

bool IsAlongRow(ScalarOp op) {
  return op == ScalarOp::kScan || op == ScalarOp::kSort ||
         op == ScalarOp::kTally;
}

bool IsIndexCheck(ScalarOp op) {
  return op == ScalarOp::kCheckIndex || op == ScalarOp::kWrapIndex;
}

bool IsCostly(ScalarOp op) {
  // The transcendental operations are neighbours in the enum.
  return (op >= ScalarOp::kExp && op <= ScalarOp::kSigmoid) ||
         op == ScalarOp::kRandom || op == ScalarOp::kPow ||
         op == ScalarOp::kAtan2 || op == ScalarOp::kHypot ||
         op == ScalarOp::kFmod || op == ScalarOp::kRemainder;
}

}  // namespace kiln
