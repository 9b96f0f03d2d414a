#include "tests/support/any_scalar.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace kiln {
namespace {

float FromBFloat16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float FromFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}

// Nearest, ties to even, by search among all 65536 neighbours' bits.
uint16_t ToBFloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rest = bits & 0xffff;
  uint32_t high = bits >> 16;
  if (rest > 0x8000 || (rest == 0x8000 && (high & 1) != 0)) ++high;
  return static_cast<uint16_t>(high);
}

uint16_t ToFloat16(float value) {
  if (std::isnan(value)) return 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) return sign | 0x7c00;
  uint16_t low = 0, high = 0x7bff;  // the largest bits not above it
  while (low < high) {
    const uint16_t middle = static_cast<uint16_t>((low + high + 1) / 2);
    if (FromFloat16(middle) <= magnitude) {
      low = middle;
    } else {
      high = static_cast<uint16_t>(middle - 1);
    }
  }
  const double below = magnitude - FromFloat16(low);
  const double above =
      (low == 0x7bff ? 65536.0 : FromFloat16(static_cast<uint16_t>(low + 1))) -
      magnitude;
  if (above < below || (above == below && (low & 1) != 0)) ++low;
  return sign | low;
}

}  // namespace

// Into the range of the type, as C's conversions wrap.
AnyScalar Normal(DType dtype, AnyScalar v) {
  switch (dtype) {
    case DType::kBool:
      v.i = v.i != 0;
      break;
    case DType::kUInt8:
      v.i = static_cast<uint8_t>(v.i);
      break;
    case DType::kInt8:
      v.i = static_cast<int8_t>(v.i);
      break;
    case DType::kInt16:
      v.i = static_cast<int16_t>(v.i);
      break;
    case DType::kInt32:
      v.i = static_cast<int32_t>(v.i);
      break;
    case DType::kInt64:
    case DType::kFloat64:
      break;
    case DType::kFloat16:
      v.f = FromFloat16(ToFloat16(static_cast<float>(v.f)));
      break;
    case DType::kBFloat16:
      v.f = FromBFloat16(ToBFloat16(static_cast<float>(v.f)));
      break;
    case DType::kFloat32:
      v.f = static_cast<float>(v.f);
      break;
  }
  return v;
}

AnyScalar ReadElement(DType dtype, const void* memory, int64_t element) {
  AnyScalar v;
  const auto read = [&](auto cell) {
    std::memcpy(&cell,
                static_cast<const char*>(memory) +
                    element * static_cast<int64_t>(sizeof(cell)),
                sizeof(cell));
    return cell;
  };
  switch (dtype) {
    case DType::kBool:
      v.i = read(uint8_t{}) != 0;
      break;
    case DType::kUInt8:
      v.i = read(uint8_t{});
      break;
    case DType::kInt8:
      v.i = read(int8_t{});
      break;
    case DType::kInt16:
      v.i = read(int16_t{});
      break;
    case DType::kInt32:
      v.i = read(int32_t{});
      break;
    case DType::kInt64:
      v.i = read(int64_t{});
      break;
    case DType::kFloat16:
      v.f = FromFloat16(read(uint16_t{}));
      break;
    case DType::kBFloat16:
      v.f = FromBFloat16(read(uint16_t{}));
      break;
    case DType::kFloat32:
      v.f = read(float{});
      break;
    case DType::kFloat64:
      v.f = read(double{});
      break;
  }
  return v;
}

void WriteElement(DType dtype, void* memory, int64_t element, AnyScalar v) {
  const auto write = [&](auto cell) {
    std::memcpy(static_cast<char*>(memory) +
                    element * static_cast<int64_t>(sizeof(cell)),
                &cell, sizeof(cell));
  };
  switch (dtype) {
    case DType::kBool:
      write(static_cast<uint8_t>(v.i != 0));
      break;
    case DType::kUInt8:
      write(static_cast<uint8_t>(v.i));
      break;
    case DType::kInt8:
      write(static_cast<int8_t>(v.i));
      break;
    case DType::kInt16:
      write(static_cast<int16_t>(v.i));
      break;
    case DType::kInt32:
      write(static_cast<int32_t>(v.i));
      break;
    case DType::kInt64:
      write(v.i);
      break;
    case DType::kFloat16:
      write(ToFloat16(static_cast<float>(v.f)));
      break;
    case DType::kBFloat16:
      write(ToBFloat16(static_cast<float>(v.f)));
      break;
    case DType::kFloat32:
      write(static_cast<float>(v.f));
      break;
    case DType::kFloat64:
      write(v.f);
      break;
  }
}

}  // namespace kiln
