#include "compiler/codegen/half_constants.h"

#include <cmath>
#include <cstring>

namespace kiln {

uint16_t BFloat16Bits(float value) {
  if (std::isnan(value)) return 0x7fc0;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t Float16Bits(float value) {
  if (std::isnan(value)) return 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return sign | 0x7c00;
  // In units of the last place of a half at this size: denormals share 2^-24.
  int exponent = magnitude == 0 ? -14 : std::ilogb(magnitude);
  if (exponent < -14) exponent = -14;
  const auto units =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A carry out of the fraction goes into the exponent, as it should.
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + units);
}

}  // namespace kiln
