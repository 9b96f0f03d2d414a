#ifndef KILN_RUNTIME_EXTERN_KERNELS_HALF_FLOAT_H_
#define KILN_RUNTIME_EXTERN_KERNELS_HALF_FLOAT_H_

#include <bit>
#include <cstdint>

// bf16 and f16 as bits, to and from f32. Rounds to nearest, ties to even; NaN
// stays NaN. Pure.

namespace kiln {

inline float FloatOfBFloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

inline uint16_t BFloat16Of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40);  // quiet
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float FloatOfFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t rest = uint32_t{bits & 0x7fffu} << 13;
  if ((bits & 0x7c00) == 0x7c00) {  // infinity or NaN
    return std::bit_cast<float>(sign | rest | 0x7f800000u);
  }
  // 2^112 moves the exponent's bias from 15 to 127, denormals included.
  const float moved = std::bit_cast<float>(rest) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(moved));
}

inline uint16_t Float16Of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return sign | 0x7e00;   // NaN
  if (rest >= 0x47800000u) return sign | 0x7c00;  // 2^16 and up: infinity
  if (rest < 0x38800000u) {                       // below 2^-14: denormal
    // The last place of 0.5 is 2^-24, that of f16's denormals: the addition
    // rounds for us.
    const float rounded = std::bit_cast<float>(rest) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) -
                                        std::bit_cast<uint32_t>(0.5f));
  }
  // The exponent's bias goes from 127 to 15, then the 13 last bits round away.
  const uint32_t moved = rest - (112u << 23) + 0xfff + ((rest >> 13) & 1);
  return sign | static_cast<uint16_t>(moved >> 13);
}

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_HALF_FLOAT_H_
