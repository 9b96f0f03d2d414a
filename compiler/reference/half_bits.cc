#include "compiler/reference/half_bits.h"

#include <bit>
#include <cmath>

namespace kiln {

float FloatFromF16Bits(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  float magnitude;
  if (exponent == 31) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

uint16_t F16BitsFromFloat(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  // The last place of a normal number of this size, or of a denormal.
  const int last_place = exponent - 11 < -24 ? -24 : exponent - 11;
  // nearbyint rounds half to even in the default rounding mode.
  const int units =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, -last_place)));
  if (last_place == -24) return sign | static_cast<uint16_t>(units);
  // units is in [1024, 2048]; 2048 carries into the exponent by itself.
  return sign | static_cast<uint16_t>(((last_place + 24) << 10) + units);
}

float FloatFromBF16Bits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t BF16BitsFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  const uint32_t half = 0x7fff + ((bits >> 16) & 1);  // ties to even
  return static_cast<uint16_t>((bits + half) >> 16);
}

}  // namespace kiln
