#ifndef KILN_RUNTIME_EXTERN_KERNELS_MATMUL_FINISH_H_
#define KILN_RUNTIME_EXTERN_KERNELS_MATMUL_FINISH_H_

#include <cmath>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// An element of a matmul's result with its activation applied. The tanh form of
// GELU is that of PyTorch: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
// relu keeps a NaN, as PyTorch's does.
template <typename T>
T Activated(Activation activation, T x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < T{0} ? T{0} : x;
    case Activation::kGeluTanh: {
      const double v = static_cast<double>(x);
      constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
      return static_cast<T>(
          0.5 * v *
          (1.0 + std::tanh(kSqrtTwoOverPi * (v + 0.044715 * v * v * v))));
    }
  }
  return x;
}

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_MATMUL_FINISH_H_
