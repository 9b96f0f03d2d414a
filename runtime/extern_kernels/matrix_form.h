#ifndef KILN_RUNTIME_EXTERN_KERNELS_MATRIX_FORM_H_
#define KILN_RUNTIME_EXTERN_KERNELS_MATRIX_FORM_H_

#include <cstdint>
#include <optional>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// Describes a matrix to a BLAS: stored row by row ('N'), or the transpose of a matrix
// that is ('T'), with the distance between stored rows.
struct BlasMatrix {
  bool transposed = false;
  int64_t leading = 1;  // in elements, at least the length of a stored row
};

// A matmul in BLAS's words, its result stored row by row. `swapped` says that
// it is out^T = b^T @ a^T of the problem that was given: a and b change places.
struct BlasMatmul {
  MatmulProblem problem;
  bool swapped = false;
  BlasMatrix a;
  BlasMatrix b;
  BlasMatrix out;  // never transposed
};

// Empty when BLAS has no words for it: neither stride of a matrix is 1, or rows
// overlap. The stride of a dimension of one element does not matter. Pure.
std::optional<BlasMatmul> ToBlas(const MatmulProblem& problem);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_MATRIX_FORM_H_
