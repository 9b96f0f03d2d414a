#ifndef KILN_COMPILER_REFERENCE_HALF_BITS_H_
#define KILN_COMPILER_REFERENCE_HALF_BITS_H_

// Bits of the two half types against float, rounding to nearest even. Exact
// for denormals, infinities and NaN; nothing is flushed. Pure.

#include <cstdint>

namespace kiln {

float FloatFromF16Bits(uint16_t bits);
uint16_t F16BitsFromFloat(float value);  // beyond 65520: infinity
float FloatFromBF16Bits(uint16_t bits);
uint16_t BF16BitsFromFloat(float value);

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_HALF_BITS_H_
