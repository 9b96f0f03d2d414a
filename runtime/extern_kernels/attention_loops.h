#ifndef KILN_RUNTIME_EXTERN_KERNELS_ATTENTION_LOOPS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_ATTENTION_LOOPS_H_

#include <cstdint>

#include "proto/base/dtype.h"

// The loops of attention in blocks that no library has, over rows of floats. They use
// AVX2 where the processor has it.

namespace kiln {

// A row's softmax so far. Its weights are relative to `top`, the largest score seen,
// and `total` is their sum.
struct RowSoftmax {
  float top = 0;
  float total = 0;
};

// Replaces each of `rows` rows of `columns` scores by e^(score - top), 0 where that is
// e^-87 or less, and updates the row's softmax. A NaN makes the row's total NaN.
// `leading` is the distance between rows.
//
// StartRows is for rows of which nothing was seen before. ContinueRows also scales
// their `width` sums, which lie dense, to the new top.
void StartRows(float* scores, int64_t rows, int64_t columns, int64_t leading,
               RowSoftmax* softmax);
void ContinueRows(float* scores, int64_t rows, int64_t columns, int64_t leading,
                  RowSoftmax* softmax, float* sums, int64_t width);

// Replaces scores by e^(score - top), 0 where that is e^-87 or less.
void Exponentiate(float* scores, int64_t count, float top);
// Replaces dp by p * (dp - delta) * scale.
void ScoreGradients(const float* p, float* dp, int64_t count, float delta,
                    float scale);
void ScaleBy(float factor, float* values, int64_t count);
// The sum of the products, in doubles.
double DotOf(const float* a, const float* b, int64_t count);

// Rows of a half type, `leading` apart, as dense rows of floats.
void Widen(const uint16_t* from, DType dtype, int64_t leading, int64_t rows,
           int64_t columns, float* to);
// Floats rounded to a half type.
void Narrow(const float* from, DType dtype, int64_t count, uint16_t* to);

// Products of one row. `leading` is the distance between rows of the matrix.
//
// out[columns] = scale * row @ matrix^T of matrix[columns, depth].
void RowTimesTransposed(const float* row, const float* matrix, int64_t leading,
                        int64_t columns, int64_t depth, float scale,
                        float* out);
// out[columns] += row @ matrix of matrix[depth, columns].
void AddRowTimes(const float* row, const float* matrix, int64_t leading,
                 int64_t columns, int64_t depth, float* out);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_ATTENTION_LOOPS_H_
