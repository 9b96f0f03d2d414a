#include "tests/support/scalar_ops.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace kiln {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

}  // namespace

double Philox(uint64_t seed, uint64_t index, uint64_t stream) {
  uint32_t key[2] = {static_cast<uint32_t>(seed),
                     static_cast<uint32_t>(seed >> 32)};
  uint32_t c[4] = {
      static_cast<uint32_t>(index >> 2), static_cast<uint32_t>(index >> 34),
      static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0],
                              static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1],
                              static_cast<uint32_t>(a)};
    std::memcpy(c, next, sizeof(c));
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return (c[index & 3] >> 8) * std::ldexp(1.0, -24);
}

double UnaryFloatOp(ScalarOp op, double a) {
  switch (op) {
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kSign:
      return (a > 0) - (a < 0);
    case ScalarOp::kReciprocal:
      return 1 / a;
    case ScalarOp::kSquare:
      return a * a;
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kRsqrt:
      return 1 / std::sqrt(a);
    case ScalarOp::kExp:
      return std::exp(a);
    case ScalarOp::kExp2:
      return std::exp2(a);
    case ScalarOp::kExpm1:
      return std::expm1(a);
    case ScalarOp::kLog:
      return std::log(a);
    case ScalarOp::kLog2:
      return std::log2(a);
    case ScalarOp::kLog10:
      return std::log10(a);
    case ScalarOp::kLog1p:
      return std::log1p(a);
    case ScalarOp::kSin:
      return std::sin(a);
    case ScalarOp::kCos:
      return std::cos(a);
    case ScalarOp::kTan:
      return std::tan(a);
    case ScalarOp::kAsin:
      return std::asin(a);
    case ScalarOp::kAcos:
      return std::acos(a);
    case ScalarOp::kAtan:
      return std::atan(a);
    case ScalarOp::kSinh:
      return std::sinh(a);
    case ScalarOp::kCosh:
      return std::cosh(a);
    case ScalarOp::kTanh:
      return std::tanh(a);
    case ScalarOp::kAsinh:
      return std::asinh(a);
    case ScalarOp::kAcosh:
      return std::acosh(a);
    case ScalarOp::kAtanh:
      return std::atanh(a);
    case ScalarOp::kErf:
      return std::erf(a);
    case ScalarOp::kErfc:
      return std::erfc(a);
    case ScalarOp::kLgamma:
      return std::lgamma(a);
    case ScalarOp::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kCeil:
      return std::ceil(a);
    case ScalarOp::kTrunc:
      return std::trunc(a);
    case ScalarOp::kRound:
      return std::nearbyint(a);
    default:
      std::abort();
  }
}

double FloatOp(ScalarOp op, double a, double b, double c) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kFloorDiv:
      return std::floor(a / b);
    case ScalarOp::kTruncDiv:
      return std::trunc(a / b);
    case ScalarOp::kRemainder:
      return a - b * std::floor(a / b);
    case ScalarOp::kFmod:
      return std::fmod(a, b);
    case ScalarOp::kPow:
      return std::pow(a, b);
    case ScalarOp::kAtan2:
      return std::atan2(a, b);
    case ScalarOp::kCopySign:
      return std::copysign(a, b);
    case ScalarOp::kNextAfter:
      return std::nextafter(static_cast<float>(a), static_cast<float>(b));
    case ScalarOp::kHypot:
      return std::hypot(a, b);
    case ScalarOp::kMaximum:
      return nan ? NAN : std::fmax(a, b);
    case ScalarOp::kMinimum:
      return nan ? NAN : std::fmin(a, b);
    case ScalarOp::kFma:
      return std::fma(a, b, c);
    default:
      return UnaryFloatOp(op, a);
  }
}

int64_t IntegerOp(ScalarOp op, int64_t a, int64_t b, int64_t c) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kFloorDiv:
      return FloorDivide(a, b);
    case ScalarOp::kTruncDiv:
      return b == 0 ? 0 : a / b;
    case ScalarOp::kRemainder:
      return b == 0 ? 0 : a - b * FloorDivide(a, b);
    case ScalarOp::kFmod:
      return b == 0 ? 0 : a % b;
    case ScalarOp::kMaximum:
      return a > b ? a : b;
    case ScalarOp::kMinimum:
      return a < b ? a : b;
    case ScalarOp::kFma:
      return a * b + c;
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return a < 0 ? -a : a;
    case ScalarOp::kSign:
      return (a > 0) - (a < 0);
    case ScalarOp::kSquare:
      return a * a;
    case ScalarOp::kAnd:
      return a & b;
    case ScalarOp::kOr:
      return a | b;
    case ScalarOp::kXor:
      return a ^ b;
    case ScalarOp::kNot:
      return ~a;
    case ScalarOp::kShiftLeft:
      return a << b;
    case ScalarOp::kShiftRight:
      return a >> b;
    default:
      std::abort();
  }
}

}  // namespace kiln
