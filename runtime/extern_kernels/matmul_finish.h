#ifndef KILN_RUNTIME_EXTERN_KERNELS_MATMUL_FINISH_H_
#define KILN_RUNTIME_EXTERN_KERNELS_MATMUL_FINISH_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// e^x within 2 ulp for x in [-87, 88], its bounds outside of that. Straight
// code without a table or a call, so that compilers make vectors of it:
// x = n ln 2 + r, e^x = 2^n e^r, e^r by its Taylor sum (|r| <= ln 2 / 2, so the
// eighth term is below 2^-27).
inline float VectorExp(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;  // nine bits: n times it is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = x - n * kLn2High - n * kLn2Low;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  return sum * std::bit_cast<float>(power);
}

// The tanh form of GELU, 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715
// x^3), as PyTorch writes it; 0.5 (1 + tanh(u)) is 1 / (1 + e^-2u).
inline float GeluTanh(float x) {
  constexpr float kTwiceSqrtTwoOverPi = 1.59576912160573071f;
  const float u = kTwiceSqrtTwoOverPi * (x + 0.044715f * x * x * x);
  return x / (1.0f + VectorExp(-u));
}
inline double GeluTanh(double x) {
  constexpr double kTwiceSqrtTwoOverPi = 1.59576912160573071;
  const double u = kTwiceSqrtTwoOverPi * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-u));
}

// Applies the activation to `count` elements in a row. relu keeps a NaN, as
// PyTorch's does.
template <typename T>
void Activate(Activation activation, T* row, int64_t count) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      for (int64_t i = 0; i < count; ++i)
        row[i] = row[i] < T{0} ? T{0} : row[i];
      return;
    case Activation::kGeluTanh:
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (std::is_floating_point_v<T>) row[i] = GeluTanh(row[i]);
      }
      return;
  }
}

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_MATMUL_FINISH_H_
