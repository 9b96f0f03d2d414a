#ifndef KILN_COMPILER_CODEGEN_HALF_CONSTANTS_H_
#define KILN_COMPILER_CODEGEN_HALF_CONSTANTS_H_

// The bits of a value rounded to a half type: to nearest, ties to even; NaN stays NaN.

#include <cstdint>

namespace kiln {

uint16_t BFloat16Bits(float value);
uint16_t Float16Bits(float value);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_HALF_CONSTANTS_H_
