#include "runtime/extern_kernels/matrix_form.h"

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

std::optional<BlasMatrix> Describe(int64_t rows, int64_t columns,
                                   const MatrixStrides& strides) {
  // A dimension of one element may have any stride.
  const bool row_major = columns <= 1 || strides.column == 1;
  if (row_major && (rows <= 1 || strides.row >= columns)) {
    return BlasMatrix{false,
                      rows <= 1 ? std::max<int64_t>(1, columns) : strides.row};
  }
  const bool column_major = rows <= 1 || strides.row == 1;
  if (column_major && (columns <= 1 || strides.column >= rows)) {
    return BlasMatrix{
        true, columns <= 1 ? std::max<int64_t>(1, rows) : strides.column};
  }
  return std::nullopt;
}

MatmulProblem Transposed(const MatmulProblem& p) {
  MatmulProblem out = p;
  std::swap(out.m, out.n);
  std::swap(out.a, out.b);
  for (MatrixStrides* strides :
       {&out.a, &out.b, &out.out, &out.bias, &out.gelu_input}) {
    std::swap(strides->row, strides->column);
  }
  return out;
}

}  // namespace

std::optional<BlasMatmul> ToBlas(const MatmulProblem& problem) {
  for (const bool swapped : {false, true}) {
    const MatmulProblem p = swapped ? Transposed(problem) : problem;
    const std::optional<BlasMatrix> a = Describe(p.m, p.k, p.a);
    const std::optional<BlasMatrix> b = Describe(p.k, p.n, p.b);
    const std::optional<BlasMatrix> out = Describe(p.m, p.n, p.out);
    if (a && b && out && !out->transposed) {
      return BlasMatmul{p, swapped, *a, *b, *out};
    }
  }
  return std::nullopt;
}

}  // namespace kiln
