// Two operands, broadcast. Integers stay integers and wrap.

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>

#include "compiler/reference/half_bits.h"
#include "compiler/reference/pointwise.h"
#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

// Wrapping integer arithmetic; unsigned has no undefined overflow.
constexpr auto kAdd = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), double>) return a + b;
  return static_cast<decltype(a)>(static_cast<uint64_t>(a) +
                                  static_cast<uint64_t>(b));
};
constexpr auto kMul = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), double>) return a * b;
  return static_cast<decltype(a)>(static_cast<uint64_t>(a) *
                                  static_cast<uint64_t>(b));
};

int64_t FloorDivInt(int64_t a, int64_t b) {
  if (b == 0) return 0;  // an error in eager mode
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

double FloorDivFloat(double a, double b) {
  if (b == 0) return a / b;
  // As Python: from the exact remainder, so that 1 // 0.1 is 9.
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

constexpr auto kFloorDiv = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), double>) {
    return FloorDivFloat(a, b);
  } else {
    return FloorDivInt(a, b);
  }
};
constexpr auto kTruncDiv = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), double>) {
    return std::trunc(a / b);
  } else {
    return b == 0 ? int64_t{0} : a / b;
  }
};
constexpr auto kRemainder = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), double>) {
    const double r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    return b == 0 ? int64_t{0} : a - FloorDivInt(a, b) * b;
  }
};
constexpr auto kFmod = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), double>) {
    return std::fmod(a, b);
  } else {
    return b == 0 ? int64_t{0} : a % b;
  }
};
constexpr auto kMaximum = [](auto a, auto b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
};
constexpr auto kMinimum = [](auto a, auto b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
};

int64_t PowInt(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  }
  uint64_t result = 1;
  uint64_t factor = static_cast<uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return static_cast<int64_t>(result);
}

RefResults PowOf(RefCall& call, absl::string_view base,
                 absl::string_view exponent) {
  std::vector<Elements> in = LoadTogether(call, {base, exponent});
  Elements& x = in[0];
  for (size_t k = 0; k < x.f.size(); ++k) {
    x.f[k] = std::pow(x.f[k], in[1].f[k]);
  }
  for (size_t k = 0; k < x.i.size(); ++k) {
    x.i[k] = PowInt(x.i[k], in[1].i[k]);
  }
  return {call.Make(0, x)};
}

// The first name is multiplied by alpha: self + alpha * other.
template <int sign>
RefResults AddScaled(RefCall& call, absl::string_view self,
                     absl::string_view other) {
  std::vector<Elements> in = LoadTogether(call, {self, other});
  const bool scaled = call.Has("alpha");
  const RefNumber alpha = scaled ? call.Number("alpha") : RefNumber();
  Elements& x = in[0];
  for (size_t k = 0; k < x.f.size(); ++k) {
    x.f[k] += sign * (scaled ? alpha.F() : 1.0) * in[1].f[k];
  }
  for (size_t k = 0; k < x.i.size(); ++k) {
    const int64_t factor = sign * (scaled ? alpha.i : 1);
    x.i[k] = kAdd(x.i[k], kMul(factor, in[1].i[k]));
  }
  return {call.Make(0, x)};
}
RefResults Add(RefCall& call) { return AddScaled<1>(call, "self", "other"); }
RefResults Sub(RefCall& call) { return AddScaled<-1>(call, "self", "other"); }
RefResults Rsub(RefCall& call) { return AddScaled<-1>(call, "other", "self"); }

RefResults DivMode(RefCall& call) {
  const std::string mode = call.String("rounding_mode");
  if (mode == "floor") return Binary<kFloorDiv>(call);
  if (mode == "trunc") return Binary<kTruncDiv>(call);
  return BinaryFloat<[](double a, double b) { return a / b; }>(call);
}

RefResults PowTensorTensor(RefCall& call) {
  return PowOf(call, "self", "exponent");
}

constexpr auto kDiv = [](double a, double b) { return a / b; };
constexpr auto kHeaviside = [](auto x, auto v) {
  return x == 0 ? v : static_cast<decltype(v)>(x > 0 ? 1 : 0);
};
constexpr auto kAnd = [](auto a, auto b) {
  return static_cast<int64_t>(a) & static_cast<int64_t>(b);
};
constexpr auto kOr = [](auto a, auto b) {
  return static_cast<int64_t>(a) | static_cast<int64_t>(b);
};
constexpr auto kXor = [](auto a, auto b) {
  return static_cast<int64_t>(a) ^ static_cast<int64_t>(b);
};
constexpr auto kShiftLeft = [](auto a, auto b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a)
                              << (static_cast<int64_t>(b) & 63));
};
constexpr auto kShiftRight = [](auto a, auto b) {
  return static_cast<int64_t>(a) >> (static_cast<int64_t>(b) & 63);
};

double LogAddExp(double a, double b) {
  if (std::isinf(a) && a == b) return a;
  const double top = std::fmax(a, b);
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return top + std::log1p(std::exp(-std::fabs(a - b)));
}

// One step of the result's dtype from x towards y. Half types have their bits
// in order of size, so a step is one more or one less.
double HalfStep(DType dtype, double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return NAN;
  if (x == y) return y;
  const bool f16 = dtype == DType::kFloat16;
  const float from = static_cast<float>(x);
  uint16_t bits = f16 ? F16BitsFromFloat(from) : BF16BitsFromFloat(from);
  const bool up = y > x;
  if (x == 0) {
    bits = up ? 0x0001 : 0x8001;
  } else {
    bits = (x > 0) == up ? bits + 1 : bits - 1;
  }
  return f16 ? FloatFromF16Bits(bits) : FloatFromBF16Bits(bits);
}

RefResults NextAfter(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "other"});
  Elements& x = in[0];
  const DType dtype = call.result(0).dtype;
  for (size_t k = 0; k < x.f.size(); ++k) {
    const double y = in[1].f[k];
    x.f[k] =
        IsHalf(dtype) ? HalfStep(dtype, x.f[k], y)
        : dtype == DType::kFloat64
            ? std::nextafter(x.f[k], y)
            : std::nextafter(static_cast<float>(x.f[k]), static_cast<float>(y));
  }
  return {call.Make(0, x)};
}

constexpr auto kEq = [](auto a, auto b) { return a == b; };
constexpr auto kNe = [](auto a, auto b) { return a != b; };
constexpr auto kLt = [](auto a, auto b) { return a < b; };
constexpr auto kLe = [](auto a, auto b) { return a <= b; };
constexpr auto kGt = [](auto a, auto b) { return a > b; };
constexpr auto kGe = [](auto a, auto b) { return a >= b; };

RefResults Heaviside(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "values"});
  Elements& x = in[0];
  for (size_t k = 0; k < x.f.size(); ++k) {
    x.f[k] = kHeaviside(x.f[k], in[1].f[k]);
  }
  for (size_t k = 0; k < x.i.size(); ++k) {
    x.i[k] = kHeaviside(x.i[k], in[1].i[k]);
  }
  return {call.Make(0, x)};
}

constexpr auto kFmax = [](auto a, auto b) {
  return a != a ? b : b != b ? a : a > b ? a : b;
};
constexpr auto kFmin = [](auto a, auto b) {
  return a != a ? b : b != b ? a : a < b ? a : b;
};

constexpr ReferenceRow kRows[] = {
    {"aten.add.Tensor", Add},
    {"aten.add.Scalar", Add},
    {"aten.sub.Tensor", Sub},
    {"aten.sub.Scalar", Sub},
    {"aten.rsub.Tensor", Rsub},
    {"aten.rsub.Scalar", Rsub},
    {"aten.mul.Tensor", Binary<kMul>},
    {"aten.mul.Scalar", Binary<kMul>},
    {"aten.div.Tensor", BinaryFloat<kDiv>},
    {"aten.div.Scalar", BinaryFloat<kDiv>},
    {"aten.true_divide.Tensor", BinaryFloat<kDiv>},
    {"aten.div.Tensor_mode", DivMode},
    {"aten.div.Scalar_mode", DivMode},
    {"aten.floor_divide.default", Binary<kFloorDiv>},
    {"aten.floor_divide.Scalar", Binary<kFloorDiv>},
    {"aten.floor_divide.Tensor", Binary<kFloorDiv>},
    {"aten.remainder.Tensor", Binary<kRemainder>},
    {"aten.remainder.Scalar", Binary<kRemainder>},
    {"aten.fmod.Tensor", Binary<kFmod>},
    {"aten.fmod.Scalar", Binary<kFmod>},
    {"aten.pow.Tensor_Tensor", PowTensorTensor},
    {"aten.pow.Tensor_Scalar", PowTensorTensor},
    {"aten.pow.Scalar", PowTensorTensor},
    {"aten.maximum.default", Binary<kMaximum>},
    {"aten.minimum.default", Binary<kMinimum>},
    {"aten.fmax.default", Binary<kFmax>},
    {"aten.fmin.default", Binary<kFmin>},
    {"aten.atan2.default",
     BinaryFloat<[](double a, double b) { return std::atan2(a, b); }>},
    {"aten.hypot.default",
     BinaryFloat<[](double a, double b) { return std::hypot(a, b); }>},
    {"aten.copysign.Tensor",
     BinaryFloat<[](double a, double b) { return std::copysign(a, b); }>},
    {"aten.copysign.Scalar",
     BinaryFloat<[](double a, double b) { return std::copysign(a, b); }>},
    {"aten.nextafter.default", NextAfter},
    {"aten.ldexp.Tensor",
     BinaryFloat<[](double a, double b) { return a * std::exp2(b); }>},
    {"aten.xlogy.Tensor", BinaryFloat<[](double a, double b) {
       return std::isnan(b) ? b : a == 0 ? 0.0 : a * std::log(b);
     }>},
    {"aten.special_xlog1py.default", BinaryFloat<[](double a, double b) {
       return std::isnan(b) ? b : a == 0 ? 0.0 : a * std::log1p(b);
     }>},
    {"aten.logaddexp.default", BinaryFloat<LogAddExp>},
    {"aten.logaddexp2.default", BinaryFloat<[](double a, double b) {
       const double ln2 = std::log(2.0);
       return LogAddExp(a * ln2, b * ln2) / ln2;
     }>},
    {"aten.gcd.default", Binary<[](auto a, auto b) {
       return std::gcd(static_cast<int64_t>(a), static_cast<int64_t>(b));
     }>},
    {"aten.lcm.default", Binary<[](auto a, auto b) {
       return std::lcm(static_cast<int64_t>(a), static_cast<int64_t>(b));
     }>},
    {"aten.heaviside.default", Heaviside},
    {"aten.bitwise_and.Tensor", Binary<kAnd>},
    {"aten.bitwise_and.Scalar", Binary<kAnd>},
    {"aten.bitwise_or.Tensor", Binary<kOr>},
    {"aten.bitwise_or.Scalar", Binary<kOr>},
    {"aten.bitwise_xor.Tensor", Binary<kXor>},
    {"aten.bitwise_xor.Scalar", Binary<kXor>},
    {"aten.bitwise_left_shift.Tensor", Binary<kShiftLeft>},
    {"aten.bitwise_left_shift.Tensor_Scalar", Binary<kShiftLeft>},
    {"aten.bitwise_right_shift.Tensor", Binary<kShiftRight>},
    {"aten.bitwise_right_shift.Tensor_Scalar", Binary<kShiftRight>},
    {"aten.logical_and.default",
     BinaryTest<[](auto a, auto b) { return a != 0 && b != 0; }>},
    {"aten.logical_or.default",
     BinaryTest<[](auto a, auto b) { return a != 0 || b != 0; }>},
    {"aten.logical_xor.default",
     BinaryTest<[](auto a, auto b) { return (a != 0) != (b != 0); }>},
    {"aten.eq.Tensor", BinaryTest<kEq>},
    {"aten.eq.Scalar", BinaryTest<kEq>},
    {"aten.ne.Tensor", BinaryTest<kNe>},
    {"aten.ne.Scalar", BinaryTest<kNe>},
    {"aten.lt.Tensor", BinaryTest<kLt>},
    {"aten.lt.Scalar", BinaryTest<kLt>},
    {"aten.le.Tensor", BinaryTest<kLe>},
    {"aten.le.Scalar", BinaryTest<kLe>},
    {"aten.gt.Tensor", BinaryTest<kGt>},
    {"aten.gt.Scalar", BinaryTest<kGt>},
    {"aten.ge.Tensor", BinaryTest<kGe>},
    {"aten.ge.Scalar", BinaryTest<kGe>},
};

}  // namespace

absl::Span<const ReferenceRow> BinaryReferences() { return kRows; }

}  // namespace kiln
