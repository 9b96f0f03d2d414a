#include "compiler/codegen/scalar_text.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/half_constants.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// How an operation is written. In the patterns $0, $1, $2 are the arguments,
// $T the ending of the type they have ("f32"), $F an 'f' for float and nothing
// for double. Empty: the type has no such operation. A row whose `cpu` is
// empty is written as on CUDA.
struct OpRow {
  ScalarOp op;
  const char* floats;
  const char* floats_cpu;
  const char* integers;
  const char* bools;
};

constexpr OpRow kRows[] = {
    {ScalarOp::kAdd, "$0 + $1", "", "$0 + $1", "$0 | $1"},
    {ScalarOp::kSub, "$0 - $1", "", "$0 - $1", "$0 ^ $1"},
    {ScalarOp::kMul, "$0 * $1", "", "$0 * $1", "$0 & $1"},
    {ScalarOp::kDiv, "$0 / $1", "", "", ""},
    {ScalarOp::kFloorDiv, "k_floordiv_$T($0, $1)", "", "k_floordiv_$T($0, $1)",
     ""},
    {ScalarOp::kTruncDiv, "trunc$F($0 / $1)", "k_trunc_$T($0 / $1)",
     "k_truncdiv_$T($0, $1)", ""},
    {ScalarOp::kRemainder, "k_remainder_$T($0, $1)", "",
     "k_remainder_$T($0, $1)", ""},
    {ScalarOp::kFmod, "fmod$F($0, $1)", "k_fmod_$T($0, $1)",
     "k_fmod_$T($0, $1)", ""},
    {ScalarOp::kPow, "pow$F($0, $1)", "k_pow_$T($0, $1)", "k_pow_$T($0, $1)",
     ""},
    {ScalarOp::kAtan2, "atan2$F($0, $1)", "k_atan2_$T($0, $1)", "", ""},
    {ScalarOp::kCopySign, "copysign$F($0, $1)", "k_copysign_$T($0, $1)", "",
     ""},
    {ScalarOp::kNextAfter, "nextafter$F($0, $1)", "k_nextafter_$T($0, $1)", "",
     ""},
    {ScalarOp::kHypot, "hypot$F($0, $1)", "k_hypot_$T($0, $1)", "", ""},
    {ScalarOp::kMaximum, "k_maximum_$T($0, $1)", "", "k_maximum_$T($0, $1)",
     "$0 | $1"},
    {ScalarOp::kMinimum, "k_minimum_$T($0, $1)", "", "k_minimum_$T($0, $1)",
     "$0 & $1"},
    {ScalarOp::kFma, "fma$F($0, $1, $2)", "k_fma_$T($0, $1, $2)",
     "$0 * $1 + $2", ""},
    {ScalarOp::kRoundFloat16, "k_f16_to_f32(k_f32_to_f16($0))", "", "", ""},
    {ScalarOp::kRoundBFloat16, "k_bf16_to_f32(k_f32_to_bf16($0))", "", "", ""},
    {ScalarOp::kNeg, "-$0", "", "-$0", ""},
    {ScalarOp::kAbs, "fabs$F($0)", "k_abs_$T($0)", "k_abs_$T($0)", "$0"},
    {ScalarOp::kSign, "k_sign_$T($0)", "", "k_sign_$T($0)", "$0"},
    {ScalarOp::kReciprocal, "1.0$F / $0", "", "", ""},
    {ScalarOp::kSquare, "$0 * $0", "", "$0 * $0", "$0"},
    {ScalarOp::kSqrt, "sqrt$F($0)", "k_sqrt_$T($0)", "", ""},
    {ScalarOp::kRsqrt, "rsqrt$F($0)", "1.0$F / k_sqrt_$T($0)", "", ""},
    {ScalarOp::kExp, "exp$F($0)", "k_exp_$T($0)", "", ""},
    {ScalarOp::kExp2, "exp2$F($0)", "k_exp2_$T($0)", "", ""},
    {ScalarOp::kExpm1, "expm1$F($0)", "k_expm1_$T($0)", "", ""},
    {ScalarOp::kLog, "log$F($0)", "k_log_$T($0)", "", ""},
    {ScalarOp::kLog2, "log2$F($0)", "k_log2_$T($0)", "", ""},
    {ScalarOp::kLog10, "log10$F($0)", "k_log10_$T($0)", "", ""},
    {ScalarOp::kLog1p, "log1p$F($0)", "k_log1p_$T($0)", "", ""},
    {ScalarOp::kSin, "sin$F($0)", "k_sin_$T($0)", "", ""},
    {ScalarOp::kCos, "cos$F($0)", "k_cos_$T($0)", "", ""},
    {ScalarOp::kTan, "tan$F($0)", "k_tan_$T($0)", "", ""},
    {ScalarOp::kAsin, "asin$F($0)", "k_asin_$T($0)", "", ""},
    {ScalarOp::kAcos, "acos$F($0)", "k_acos_$T($0)", "", ""},
    {ScalarOp::kAtan, "atan$F($0)", "k_atan_$T($0)", "", ""},
    {ScalarOp::kSinh, "sinh$F($0)", "k_sinh_$T($0)", "", ""},
    {ScalarOp::kCosh, "cosh$F($0)", "k_cosh_$T($0)", "", ""},
    {ScalarOp::kTanh, "tanh$F($0)", "k_tanh_$T($0)", "", ""},
    {ScalarOp::kAsinh, "asinh$F($0)", "k_asinh_$T($0)", "", ""},
    {ScalarOp::kAcosh, "acosh$F($0)", "k_acosh_$T($0)", "", ""},
    {ScalarOp::kAtanh, "atanh$F($0)", "k_atanh_$T($0)", "", ""},
    {ScalarOp::kErf, "erf$F($0)", "k_erf_$T($0)", "", ""},
    {ScalarOp::kErfc, "erfc$F($0)", "k_erfc_$T($0)", "", ""},
    {ScalarOp::kErfinv, "erfinv$F($0)", "k_erfinv_$T($0)", "", ""},
    {ScalarOp::kLgamma, "lgamma$F($0)", "k_lgamma_$T($0)", "", ""},
    {ScalarOp::kDigamma, "k_digamma_$T($0)", "", "", ""},
    {ScalarOp::kSigmoid, "1.0$F / (1.0$F + exp$F(-$0))",
     "1.0$F / (1.0$F + k_exp_$T(-$0))", "", ""},
    {ScalarOp::kFloor, "floor$F($0)", "k_floor_$T($0)", "$0", ""},
    {ScalarOp::kCeil, "ceil$F($0)", "k_ceil_$T($0)", "$0", ""},
    {ScalarOp::kTrunc, "trunc$F($0)", "k_trunc_$T($0)", "$0", ""},
    {ScalarOp::kRound, "rint$F($0)", "k_rint_$T($0)", "$0", ""},
    {ScalarOp::kEq, "$0 == $1", "", "$0 == $1", "$0 == $1"},
    {ScalarOp::kNe, "$0 != $1", "", "$0 != $1", "$0 != $1"},
    {ScalarOp::kLt, "$0 < $1", "", "$0 < $1", "$0 < $1"},
    {ScalarOp::kLe, "$0 <= $1", "", "$0 <= $1", "$0 <= $1"},
    {ScalarOp::kGt, "$0 > $1", "", "$0 > $1", "$0 > $1"},
    {ScalarOp::kGe, "$0 >= $1", "", "$0 >= $1", "$0 >= $1"},
    {ScalarOp::kIsNan, "$0 != $0", "", "", ""},
    {ScalarOp::kIsInf, "k_isinf_$T($0)", "", "", ""},
    {ScalarOp::kSignBit, "k_signbit_$T($0)", "", "$0 < 0", ""},
    {ScalarOp::kAnd, "", "", "$0 & $1", "$0 & $1"},
    {ScalarOp::kOr, "", "", "$0 | $1", "$0 | $1"},
    {ScalarOp::kXor, "", "", "$0 ^ $1", "$0 ^ $1"},
    {ScalarOp::kNot, "", "", "~$0", "k_not($0)"},
    {ScalarOp::kShiftLeft, "", "", "$0 << $1", ""},
    {ScalarOp::kShiftRight, "", "", "$0 >> $1", ""},
};

// What Dialect::kCudaApproximate writes in another way, of float32. Relative
// errors: division and reciprocal 2 ulp, exp 2 ulp + 2^-22 times its argument,
// tanh and erf 2^-20.
struct ApproximateRow {
  ScalarOp op;
  const char* text;
};
constexpr ApproximateRow kApproximate[] = {
    {ScalarOp::kDiv, "k_near_divide($0, $1)"},
    {ScalarOp::kReciprocal, "k_near_divide(1.0f, $0)"},
    {ScalarOp::kSqrt, "k_near_sqrt($0)"},
    {ScalarOp::kExp, "k_near_exp($0)"},
    {ScalarOp::kSigmoid, "k_near_inverse(1.0f + k_near_exp(-$0))"},
    {ScalarOp::kTanh, "k_near_tanh($0)"},
    {ScalarOp::kErf, "k_near_erf($0)"},
};

const char* ApproximateText(ScalarOp op) {
  for (const ApproximateRow& row : kApproximate)
    if (row.op == op) return row.text;
  return nullptr;
}

const OpRow* RowOf(ScalarOp op) {
  for (const OpRow& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

std::string Expand(const char* pattern, DType type,
                   absl::Span<const std::string> args) {
  std::string out = "(";
  for (const char* p = pattern; *p != '\0'; ++p) {
    if (*p != '$') {
      out += *p;
      continue;
    }
    ++p;
    if (*p == 'T') {
      absl::StrAppend(&out, TypeEnding(type));
    } else if (*p == 'F') {
      if (type == DType::kFloat32) out += 'f';
    } else {
      out += args[*p - '0'];
    }
  }
  return out + ")";
}

// Comparisons and predicates: their text is a mask of the compared type.
bool GivesMask(ScalarOp op) {
  switch (op) {
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf:
    case ScalarOp::kSignBit:
      return true;
    default:  // not a switch over the work to do: a question about few
      return false;
  }
}

bool IsCuda(Dialect dialect) {
  return dialect == Dialect::kCuda || dialect == Dialect::kCudaApproximate;
}

absl::Status Unsupported(ScalarOp op, DType type) {
  return MakeError(
      ErrorReason::kUnsupportedOp,
      absl::StrCat("scalar ", ScalarOpName(op), " of ", ShortName(type)));
}

std::string FloatText(double value, bool single) {
  if (std::isnan(value)) return single ? "k_nan_f32()" : "k_nan_f64()";
  if (std::isinf(value))
    return absl::StrCat(value < 0 ? "-" : "",
                        single ? "k_inf_f32()" : "k_inf_f64()");
  std::string text;
  // The shortest text that reads back as the same bits.
  for (int digits = single ? 6 : 15; digits <= (single ? 9 : 17); ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    const double back = strtod(text.c_str(), nullptr);
    if (single ? static_cast<float>(back) == static_cast<float>(value)
               : back == value)
      break;
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return single ? text + "f" : text;
}

}  // namespace

absl::string_view CTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUInt8:
      return "unsigned char";
    case DType::kInt8:
      return "signed char";
    case DType::kInt16:
      return "short";
    case DType::kInt32:
      return "int";
    case DType::kInt64:
      return "long long";
    case DType::kFloat16:
    case DType::kBFloat16:
      return "unsigned short";
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
  }
  return "";
}

absl::string_view TypeEnding(DType dtype) {
  return dtype == DType::kBool ? "b" : ShortName(dtype);
}

std::string LaneTypeName(DType dtype) {
  if (IsHalf(dtype)) return "kv_u16";
  return absl::StrCat("kv_", TypeEnding(dtype));
}

std::string ConstantText(DType dtype, Number number) {
  switch (dtype) {
    case DType::kBool:
      return number.i != 0 ? "true" : "false";
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
      return absl::StrCat("(", CTypeName(dtype), ")", number.i);
    case DType::kInt32:
      return number.i == std::numeric_limits<int32_t>::min()
                 ? "(-2147483647 - 1)"
                 : absl::StrCat(number.i);
    case DType::kInt64:
      return number.i == std::numeric_limits<int64_t>::min()
                 ? "(-9223372036854775807ll - 1)"
                 : absl::StrCat(number.i, "ll");
    case DType::kFloat16:
    case DType::kBFloat16:
      return absl::StrCat("(unsigned short)",
                          dtype == DType::kFloat16
                              ? Float16Bits(static_cast<float>(number.f))
                              : BFloat16Bits(static_cast<float>(number.f)));
    case DType::kFloat32:
      return FloatText(static_cast<float>(number.f), true);
    case DType::kFloat64:
      return FloatText(number.f, false);
  }
  return "";
}

std::string CastText(DType from, DType to, const std::string& value,
                     Dialect dialect) {
  if (from == to) return value;
  if (IsHalf(from)) {
    const std::string wide =
        absl::StrCat("k_", TypeEnding(from), "_to_f32(", value, ")");
    return CastText(DType::kFloat32, to, wide, dialect);
  }
  if (IsHalf(to))
    return absl::StrCat("k_f32_to_", TypeEnding(to), "(",
                        CastText(from, DType::kFloat32, value, dialect), ")");
  // Negative floats to small integers wrap, by way of a wide one.
  const bool narrow = IsFloat(from) && SizeInBytes(to) < 4;
  if (dialect != Dialect::kCpuLanes) {
    if (to == DType::kBool) return absl::StrCat("(", value, " != 0)");
    return absl::StrCat("(", CTypeName(to), ")", narrow ? "(long long)" : "",
                        value);
  }
  if (to == DType::kBool)
    return absl::StrCat("k_mask(", value, " != (", LaneTypeName(from), "){})");
  const std::string numbers =
      from == DType::kBool ? absl::StrCat("(", value, " & 1)")
      : narrow ? absl::StrCat("__builtin_convertvector(", value, ", kv_i32)")
               : value;
  if (to == DType::kInt32 && (from == DType::kBool)) return numbers;
  return absl::StrCat("__builtin_convertvector(", numbers, ", ",
                      LaneTypeName(to), ")");
}

std::string QuotientText(const std::string& of, double by) {
  int exponent = 0;
  // The compiler multiplies by the inverse of a power of two.
  if (!(by >= 1 && by < 0x1p60) || std::frexp(by, &exponent) == 0.5) return "";
  const std::string c = FloatText(by, true);
  return absl::StrCat("k_divide_by(", of, ", ", c, ", 1.0f / ", c, ")");
}

namespace {

std::string WhereText(DType dtype, absl::Span<const std::string> args,
                      Dialect dialect) {
  if (dialect == Dialect::kCpu)
    return absl::StrCat("(", args[0], " ? ", args[1], " : ", args[2], ")");
  const std::string type =
      IsCuda(dialect) ? absl::StrCat("<", CTypeName(dtype), ">") : "";
  return absl::StrCat("k_where", type, "(", absl::StrJoin(args, ", "), ")");
}

}  // namespace

absl::StatusOr<std::string> OperationText(const ScalarNode& node, DType from,
                                          absl::Span<const std::string> args,
                                          Dialect dialect) {
  switch (node.op) {
    case ScalarOp::kCast:
      return CastText(from, node.dtype, args[0], dialect);
    case ScalarOp::kWhere:
      return WhereText(node.dtype, args, dialect);
    case ScalarOp::kBitcast:
      if (dialect == Dialect::kCpuLanes)
        return absl::StrCat("((", LaneTypeName(node.dtype), ")", args[0], ")");
      return absl::StrCat("k_bitcast<", CTypeName(node.dtype), ">(", args[0],
                          ")");
    case ScalarOp::kRandom:
      return absl::StrCat("k_random_f32(", args[0], ", ", args[1], ", ",
                          static_cast<uint64_t>(node.number.i), "ull)");
    default:
      break;
  }
  const OpRow* row = RowOf(node.op);
  if (row == nullptr)
    return absl::InternalError(
        absl::StrCat("scalar ", ScalarOpName(node.op), " is not an operation"));

  std::vector<std::string> wide(args.begin(), args.end());
  DType type = from;
  // A lane that is true is -1: as numbers they stand the other way round.
  if (type == DType::kBool && dialect == Dialect::kCpuLanes &&
      IsOrderComparison(node.op)) {
    std::swap(wide[0], wide[1]);
  }
  if (IsHalf(from)) {
    // The next float is not the next half.
    if (node.op == ScalarOp::kNextAfter) return Unsupported(node.op, from);
    type = DType::kFloat32;
    for (std::string& arg : wide) arg = CastText(from, type, arg, dialect);
  }
  const char* pattern = type == DType::kBool ? row->bools
                        : !IsFloat(type)     ? row->integers
                        : !IsCuda(dialect) && *row->floats_cpu != '\0'
                            ? row->floats_cpu
                            : row->floats;
  if (dialect == Dialect::kCudaApproximate && type == DType::kFloat32 &&
      ApproximateText(node.op) != nullptr) {
    pattern = ApproximateText(node.op);
  }
  if (*pattern == '\0') return Unsupported(node.op, from);
  std::string text = Expand(pattern, type, wide);
  if (GivesMask(node.op))
    return dialect == Dialect::kCpuLanes ? absl::StrCat("k_mask", text) : text;
  // C computes small integers as int: each operation wraps on its own.
  if (dialect != Dialect::kCpuLanes && SizeInBytes(type) < 4 &&
      type != DType::kBool)
    text = absl::StrCat("(", CTypeName(type), ")", text);
  return CastText(type, IsHalf(node.dtype) ? node.dtype : type, text, dialect);
}

absl::StatusOr<std::string> CombineText(ReduceOp op, DType dtype,
                                        const std::string& a,
                                        const std::string& b) {
  switch (op) {
    case ReduceOp::kSum:
      return dtype == DType::kBool ? absl::StrCat(a, " | ", b)
                                   : absl::StrCat(a, " + ", b);
    case ReduceOp::kProd:
      return dtype == DType::kBool ? absl::StrCat(a, " & ", b)
                                   : absl::StrCat(a, " * ", b);
    case ReduceOp::kMax:
      if (dtype == DType::kBool) return absl::StrCat(a, " | ", b);
      return absl::StrCat("k_maximum_", TypeEnding(dtype), "(", a, ", ", b,
                          ")");
    case ReduceOp::kMin:
      if (dtype == DType::kBool) return absl::StrCat(a, " & ", b);
      return absl::StrCat("k_minimum_", TypeEnding(dtype), "(", a, ", ", b,
                          ")");
    case ReduceOp::kAny:
      return absl::StrCat(a, " | ", b);
    case ReduceOp::kAll:
      return absl::StrCat(a, " & ", b);
    case ReduceOp::kXor:
      return absl::StrCat(a, " ^ ", b);
    case ReduceOp::kLogSumExp:
      if (!IsFloat(dtype)) break;
      return absl::StrCat("k_logaddexp_", TypeEnding(dtype), "(", a, ", ", b,
                          ")");
    case ReduceOp::kNone:
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kSoftmax:
    case ReduceOp::kMoments:
      break;
  }
  return MakeError(
      ErrorReason::kUnsupportedOp,
      absl::StrCat("reduction ", ReduceOpName(op), " of ", ShortName(dtype)));
}

std::string IdentityText(ReduceOp op, DType dtype) {
  const bool is_float = IsFloat(dtype);
  const auto number = [&](double f, int64_t i) {
    Number n;
    if (is_float) {
      n.f = f;
    } else {
      n.i = i;
    }
    return ConstantText(dtype, n);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const int bits = static_cast<int>(8 * SizeInBytes(dtype));
  const bool is_unsigned = dtype == DType::kUInt8 || dtype == DType::kBool;
  const int64_t least =
      is_unsigned ? 0
                  : -(int64_t{1} << (bits - 2)) - (int64_t{1} << (bits - 2));
  const int64_t most = dtype == DType::kBool ? 1
                       : is_unsigned         ? 255
                                             : -(least + 1);
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kAll:
      return number(1, dtype == DType::kBool || op == ReduceOp::kProd ? 1 : -1);
    case ReduceOp::kMax:
    case ReduceOp::kArgMax:
    case ReduceOp::kLogSumExp:
      return number(-infinity, least);
    case ReduceOp::kMin:
    case ReduceOp::kArgMin:
      return number(infinity, most);
    case ReduceOp::kNone:
    case ReduceOp::kSum:
    case ReduceOp::kAny:
    case ReduceOp::kXor:
    case ReduceOp::kSoftmax:
    case ReduceOp::kMoments:
      return number(0, 0);
  }
  return "";
}

}  // namespace kiln
