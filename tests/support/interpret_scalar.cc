#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/reference/half_bits.h"
#include "compiler/reference/special_functions.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {

namespace {

template <typename T>
T Get(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void Put(T value, char* at) {
  std::memcpy(at, &value, sizeof(T));
}

int64_t WrapTo(DType dtype, int64_t v) {
  if (dtype == DType::kBool) return v != 0;
  if (dtype == DType::kUInt8) return static_cast<uint8_t>(v);
  if (dtype == DType::kInt8) return static_cast<int8_t>(v);
  if (dtype == DType::kInt16) return static_cast<int16_t>(v);
  if (dtype == DType::kInt32) return static_cast<int32_t>(v);
  return v;
}

double Sign(double x) { return x > 0 ? 1 : (x < 0 ? -1 : x); }

double Unary(ScalarOp op, double x) {
  switch (op) {
    case ScalarOp::kNeg:
      return -x;
    case ScalarOp::kAbs:
      return std::fabs(x);
    case ScalarOp::kSign:
      return Sign(x);
    case ScalarOp::kReciprocal:
      return 1 / x;
    case ScalarOp::kSquare:
      return x * x;
    case ScalarOp::kSqrt:
      return std::sqrt(x);
    case ScalarOp::kRsqrt:
      return 1 / std::sqrt(x);
    case ScalarOp::kExp:
      return std::exp(x);
    case ScalarOp::kExp2:
      return std::exp2(x);
    case ScalarOp::kExpm1:
      return std::expm1(x);
    case ScalarOp::kLog:
      return std::log(x);
    case ScalarOp::kLog2:
      return std::log2(x);
    case ScalarOp::kLog10:
      return std::log10(x);
    case ScalarOp::kLog1p:
      return std::log1p(x);
    case ScalarOp::kSin:
      return std::sin(x);
    case ScalarOp::kCos:
      return std::cos(x);
    case ScalarOp::kTan:
      return std::tan(x);
    case ScalarOp::kAsin:
      return std::asin(x);
    case ScalarOp::kAcos:
      return std::acos(x);
    case ScalarOp::kAtan:
      return std::atan(x);
    case ScalarOp::kSinh:
      return std::sinh(x);
    case ScalarOp::kCosh:
      return std::cosh(x);
    case ScalarOp::kTanh:
      return std::tanh(x);
    case ScalarOp::kAsinh:
      return std::asinh(x);
    case ScalarOp::kAcosh:
      return std::acosh(x);
    case ScalarOp::kAtanh:
      return std::atanh(x);
    case ScalarOp::kErf:
      return std::erf(x);
    case ScalarOp::kErfc:
      return std::erfc(x);
    case ScalarOp::kErfinv:
      return Erfinv(x);
    case ScalarOp::kLgamma:
      return std::lgamma(x);
    case ScalarOp::kDigamma:
      return Digamma(x);
    case ScalarOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ScalarOp::kFloor:
      return std::floor(x);
    case ScalarOp::kCeil:
      return std::ceil(x);
    case ScalarOp::kTrunc:
      return std::trunc(x);
    case ScalarOp::kRound:
      return std::nearbyint(x);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

double BinaryFloat(ScalarOp op, double x, double y) {
  switch (op) {
    case ScalarOp::kAdd:
      return x + y;
    case ScalarOp::kSub:
      return x - y;
    case ScalarOp::kMul:
      return x * y;
    case ScalarOp::kDiv:
      return x / y;
    case ScalarOp::kFloorDiv:
      return std::floor(x / y);
    case ScalarOp::kTruncDiv:
      return std::trunc(x / y);
    case ScalarOp::kFmod:
      return std::fmod(x, y);
    case ScalarOp::kRemainder: {
      const double r = std::fmod(x, y);
      return r != 0 && (r < 0) != (y < 0) ? r + y : r;
    }
    case ScalarOp::kPow:
      return std::pow(x, y);
    case ScalarOp::kAtan2:
      return std::atan2(x, y);
    case ScalarOp::kCopySign:
      return std::copysign(x, y);
    case ScalarOp::kNextAfter:
      return std::nextafter(static_cast<float>(x), static_cast<float>(y));
    case ScalarOp::kHypot:
      return std::hypot(x, y);
    case ScalarOp::kMaximum:
      return std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y);
    case ScalarOp::kMinimum:
      return std::isnan(x) || std::isnan(y) ? x + y : std::min(x, y);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

int64_t PowInt(int64_t x, int64_t y) {
  uint64_t p = 1, b = static_cast<uint64_t>(x);
  for (; y > 0; --y) p *= b;
  return static_cast<int64_t>(p);
}

int64_t BinaryInt(ScalarOp op, DType dtype, int64_t x, int64_t y) {
  const auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  switch (op) {
    case ScalarOp::kAdd:
      return static_cast<int64_t>(u(x) + u(y));
    case ScalarOp::kSub:
      return static_cast<int64_t>(u(x) - u(y));
    case ScalarOp::kMul:
      return static_cast<int64_t>(u(x) * u(y));
    case ScalarOp::kTruncDiv:
      return y == 0 ? 0 : x / y;
    case ScalarOp::kFloorDiv:
      if (y == 0) return 0;
      return x / y - (x % y != 0 && (x < 0) != (y < 0));
    case ScalarOp::kFmod:
      return y == 0 ? 0 : x % y;
    case ScalarOp::kRemainder: {
      const int64_t r = y == 0 ? 0 : x % y;
      return r != 0 && (r < 0) != (y < 0) ? r + y : r;
    }
    case ScalarOp::kPow:
      return PowInt(x, y);
    case ScalarOp::kMaximum:
      return std::max(x, y);
    case ScalarOp::kMinimum:
      return std::min(x, y);
    case ScalarOp::kAnd:
      return x & y;
    case ScalarOp::kOr:
      return x | y;
    case ScalarOp::kXor:
      return x ^ y;
    case ScalarOp::kShiftLeft:
      return static_cast<int64_t>(u(x) << (y & 63));
    case ScalarOp::kShiftRight:
      return x >> (y & 63);
    default:
      return dtype == DType::kBool ? 0 : -1;
  }
}

bool Compare(ScalarOp op, DType dtype, Cell a, Cell b) {
  const auto compare = [op](auto x, auto y) {
    switch (op) {
      case ScalarOp::kEq:
        return x == y;
      case ScalarOp::kNe:
        return x != y;
      case ScalarOp::kLt:
        return x < y;
      case ScalarOp::kLe:
        return x <= y;
      case ScalarOp::kGt:
        return x > y;
      default:
        return x >= y;
    }
  };
  return IsFloat(dtype) ? compare(a.f, b.f) : compare(a.i, b.i);
}

Cell CastCell(DType from, DType to, Cell v) {
  if (IsFloat(to)) {
    return {RoundTo(to, IsFloat(from) ? v.f : static_cast<double>(v.i)), 0};
  }
  if (!IsFloat(from)) return {0, WrapTo(to, v.i)};
  if (to == DType::kBool) return {0, v.f != 0};
  if (!(std::fabs(v.f) < 9.2e18)) {
    return {0, WrapTo(to, std::numeric_limits<int64_t>::min())};
  }
  return {0, WrapTo(to, static_cast<int64_t>(v.f))};
}

}  // namespace

Cell ReadCell(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kBool:
      return {0, Get<uint8_t>(at) != 0};
    case DType::kUInt8:
      return {0, Get<uint8_t>(at)};
    case DType::kInt8:
      return {0, Get<int8_t>(at)};
    case DType::kInt16:
      return {0, Get<int16_t>(at)};
    case DType::kInt32:
      return {0, Get<int32_t>(at)};
    case DType::kInt64:
      return {0, Get<int64_t>(at)};
    case DType::kFloat16:
      return {FloatFromF16Bits(Get<uint16_t>(at)), 0};
    case DType::kBFloat16:
      return {FloatFromBF16Bits(Get<uint16_t>(at)), 0};
    case DType::kFloat32:
      return {Get<float>(at), 0};
    case DType::kFloat64:
      return {Get<double>(at), 0};
  }
  return {};
}

void WriteCell(DType dtype, Cell value, char* at) {
  switch (dtype) {
    case DType::kBool:
      return Put<uint8_t>(value.i != 0, at);
    case DType::kUInt8:
      return Put(static_cast<uint8_t>(value.i), at);
    case DType::kInt8:
      return Put(static_cast<int8_t>(value.i), at);
    case DType::kInt16:
      return Put(static_cast<int16_t>(value.i), at);
    case DType::kInt32:
      return Put(static_cast<int32_t>(value.i), at);
    case DType::kInt64:
      return Put(value.i, at);
    case DType::kFloat16:
      return Put(F16BitsFromFloat(static_cast<float>(value.f)), at);
    case DType::kBFloat16:
      return Put(BF16BitsFromFloat(static_cast<float>(value.f)), at);
    case DType::kFloat32:
      return Put(static_cast<float>(value.f), at);
    case DType::kFloat64:
      return Put(value.f, at);
  }
}

Cell Updated(StoreMode mode, Cell old, Cell value) {
  if (mode == StoreMode::kAtomicMax) return {value.f, std::max(value.i, old.i)};
  if (mode == StoreMode::kAtomicMul) return {value.f * old.f, value.i * old.i};
  return {value.f + old.f, value.i + old.i};
}

Cell ComputeScalar(const ScalarNode& node, DType arg_dtype,
                   absl::Span<const Cell> args) {
  const ScalarOp op = node.op;
  if (op == ScalarOp::kWhere) return args[0].i != 0 ? args[1] : args[2];
  if (op == ScalarOp::kCast) return CastCell(arg_dtype, node.dtype, args[0]);
  if (op == ScalarOp::kBitcast) {
    char bytes[8] = {};
    WriteCell(arg_dtype, args[0], bytes);
    return ReadCell(node.dtype, bytes);
  }
  if (IsComparison(op)) return {0, Compare(op, arg_dtype, args[0], args[1])};
  if (op == ScalarOp::kIsNan) return {0, std::isnan(args[0].f)};
  if (op == ScalarOp::kIsInf) return {0, std::isinf(args[0].f)};
  if (op == ScalarOp::kSignBit) return {0, std::signbit(args[0].f)};
  if (IsFloat(node.dtype)) {
    double value = 0;
    if (op == ScalarOp::kFma) {
      value = std::fma(args[0].f, args[1].f, args[2].f);
    } else {
      value = args.size() == 1 ? Unary(op, args[0].f)
                               : BinaryFloat(op, args[0].f, args[1].f);
    }
    return {RoundTo(node.dtype, value), 0};
  }
  int64_t value = 0;
  if (op == ScalarOp::kNot) {
    value = node.dtype == DType::kBool ? !args[0].i : ~args[0].i;
  } else if (op == ScalarOp::kFma) {
    value = args[0].i * args[1].i + args[2].i;
  } else if (args.size() == 1) {
    const int64_t x = args[0].i;
    value = op == ScalarOp::kNeg      ? -x
            : op == ScalarOp::kAbs    ? std::abs(x)
            : op == ScalarOp::kSign   ? (x > 0) - (x < 0)
            : op == ScalarOp::kSquare ? x * x
                                      : x;
  } else {
    value = BinaryInt(op, node.dtype, args[0].i, args[1].i);
  }
  return {0, WrapTo(node.dtype, value)};
}

std::vector<Cell> EmptyReduction(ReduceOp op, DType dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  const int64_t high = std::numeric_limits<int64_t>::max();
  switch (op) {
    case ReduceOp::kProd:
    case ReduceOp::kAll:
      return {{1, 1}};
    case ReduceOp::kMax:
    case ReduceOp::kArgMax:
      return {{-inf, WrapTo(dtype, -high)}, {0, 0}};
    case ReduceOp::kMin:
    case ReduceOp::kArgMin:
      return {{inf, WrapTo(dtype, high)}, {0, 0}};
    default:
      return {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
  }
}

absl::StatusOr<Cell> CheckedIndex(const ScalarNode& node, const Cell* args) {
  const int64_t size = args[1].i;
  int64_t index = args[0].i;
  if (node.op == ScalarOp::kWrapIndex && index < 0) index += size;
  if (index >= 0 && index < size) return Cell{0, index};
  if (node.args.size() > 2 && args[2].i == 0) return Cell{0, 0};
  return absl::OutOfRangeError(
      absl::StrCat("index out of bounds: ", args[0].i, " of ", size));
}

std::vector<int64_t> Tallied(absl::Span<const Cell> row) {
  std::vector<int64_t> before;
  std::map<int64_t, int64_t> seen;
  for (const Cell& cell : row) before.push_back(seen[cell.i]++);
  return before;
}

std::vector<int64_t> Sorted(ReduceOp order, DType dtype,
                            absl::Span<const Cell> row) {
  std::vector<int64_t> places(row.size());
  std::iota(places.begin(), places.end(), 0);
  const bool up = order == ReduceOp::kMin;
  std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
    const Cell& low = row[static_cast<size_t>(up ? a : b)];
    const Cell& high = row[static_cast<size_t>(up ? b : a)];
    if (!IsFloat(dtype)) return low.i < high.i;
    return std::isnan(high.f) ? !std::isnan(low.f) : low.f < high.f;
  });
  return places;
}

void Combine(ReduceOp op, DType dtype, bool first, absl::Span<const Cell> next,
             std::vector<Cell>& total) {
  if (first) {
    total.assign(next.begin(), next.end());
    if (op == ReduceOp::kSoftmax) {
      total.push_back({std::isfinite(total[0].f) ? 1.0 : NAN, 0});
    } else if (op == ReduceOp::kMoments) {
      total.push_back(total[0]);
      total.push_back({0, 0});
      total.push_back({1, 0});
    }
    return;
  }
  Cell& t = total[0];
  const Cell n = next[0];
  const auto binary = [&](ScalarOp scalar) {
    if (IsFloat(dtype)) {
      t.f = RoundTo(dtype, BinaryFloat(scalar, t.f, n.f));
    } else {
      t.i = WrapTo(dtype, BinaryInt(scalar, dtype, t.i, n.i));
    }
  };
  switch (op) {
    case ReduceOp::kSum:
      return binary(ScalarOp::kAdd);
    case ReduceOp::kProd:
      return binary(ScalarOp::kMul);
    case ReduceOp::kMax:
      return binary(ScalarOp::kMaximum);
    case ReduceOp::kMin:
      return binary(ScalarOp::kMinimum);
    case ReduceOp::kAny:
      return binary(ScalarOp::kOr);
    case ReduceOp::kAll:
      return binary(ScalarOp::kAnd);
    case ReduceOp::kXor:
      return binary(ScalarOp::kXor);
    case ReduceOp::kLogSumExp:
      t.f = LogAddExp(t.f, n.f);
      return;
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin: {
      const bool nan = IsFloat(dtype) && std::isnan(n.f);
      const bool had = IsFloat(dtype) && std::isnan(t.f);
      const ScalarOp better =
          op == ReduceOp::kArgMax ? ScalarOp::kGt : ScalarOp::kLt;
      const bool equal = (nan && had) || Compare(ScalarOp::kEq, dtype, n, t);
      if ((nan && !had) || (!had && Compare(better, dtype, n, t)) ||
          (equal && next[1].i < total[1].i)) {
        total.assign(next.begin(), next.end());
      }
      return;
    }
    case ReduceOp::kSoftmax: {
      const double max = std::isnan(n.f) || n.f > t.f ? n.f : t.f;
      total[1].f = total[1].f * std::exp(t.f - max) + std::exp(n.f - max);
      t.f = max;
      return;
    }
    case ReduceOp::kMoments: {
      const double count = total[3].f + 1, apart = n.f - total[1].f;
      t.f += n.f;
      total[1].f += apart / count;
      total[2].f += apart * (n.f - total[1].f);
      total[3].f = count;
      return;
    }
    case ReduceOp::kNone:
      return;
  }
}

}  // namespace kiln
