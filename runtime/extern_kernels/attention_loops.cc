#include "runtime/extern_kernels/attention_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/extern_kernels/half_float.h"
#include "runtime/extern_kernels/matmul_finish.h"

namespace kiln {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

constexpr int kRowsAtOnce = 4;
// Rows may lie apart, each on a page of its own, where the processor does not foresee
// them. They are asked for so many rows early.
constexpr int64_t kRowsAhead = 8;

// Each loop is compiled twice: one that is inlined uses the vectors of its caller. Sums
// and maxima go in eight chains in both.
#define KILN_ALWAYS_INLINE inline __attribute__((always_inline))
#define KILN_LOOP __attribute__((always_inline))

template <typename Loop>
__attribute__((target("avx2,fma"))) auto WithAvx2(const Loop& loop) {
  return loop();
}

bool HasAvx2() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

template <typename Loop>
auto InVectors(const Loop& loop) {
  return HasAvx2() ? WithAvx2(loop) : loop();
}

using Lanes = float __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(32)));
using HalfLanes = float __attribute__((vector_size(16)));
constexpr int64_t kLanes = sizeof(Lanes) / sizeof(float);

template <typename Vector>
KILN_ALWAYS_INLINE void Load(const float* from, Vector& lanes) {
  std::memcpy(&lanes, from, sizeof(lanes));
}

template <typename T>
KILN_ALWAYS_INLINE void Prefetch(const T* row, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t j = 0; j < count; j += kLine) __builtin_prefetch(row + j);
}

KILN_ALWAYS_INLINE float SumOf(const Lanes& lanes) {
  const HalfLanes sums = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3) +
                         __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// -inf of none. A NaN is passed over.
KILN_ALWAYS_INLINE float LargestLoop(const float* scores, int64_t count) {
  Lanes tops = Lanes{} + kNothing;
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Lanes x;
    Load(scores + j, x);
    tops = x > tops ? x : tops;
  }
  float top = kNothing;
  for (int64_t l = 0; l < kLanes; ++l) top = tops[l] > top ? tops[l] : top;
  for (; j < count; ++j) top = scores[j] > top ? scores[j] : top;
  return top;
}

KILN_ALWAYS_INLINE void ExponentiateLoop(float* scores, int64_t count,
                                         float top) {
  for (int64_t j = 0; j < count; ++j) {
    const float away = scores[j] - top;
    const float weight = VectorExp(away);
    scores[j] = away < -87.0f ? 0.0f : weight;
  }
}

// As ExponentiateLoop; gives their sum.
KILN_ALWAYS_INLINE float WeighLoop(float* scores, int64_t count, float top) {
  ExponentiateLoop(scores, count, top);
  Lanes sums{};
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Lanes x;
    Load(scores + j, x);
    sums += x;
  }
  float sum = SumOf(sums);
  for (; j < count; ++j) sum += scores[j];
  return sum;
}

KILN_ALWAYS_INLINE void ScaleLoop(float factor, float* values, int64_t count) {
  for (int64_t j = 0; j < count; ++j) values[j] *= factor;
}

// sums[r] = row . (row r of matrix), of kRows rows.
template <int kRows>
KILN_ALWAYS_INLINE void DotRows(const float* row, const float* matrix,
                                int64_t leading, int64_t depth, float* sums) {
  Lanes lanes[kRows] = {};
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    Lanes x, y;
    Load(row + k, x);
    for (int r = 0; r < kRows; ++r) {
      Load(matrix + r * leading + k, y);
      lanes[r] += x * y;
    }
  }
  for (int r = 0; r < kRows; ++r) sums[r] = SumOf(lanes[r]);
  for (; k < depth; ++k) {
    for (int r = 0; r < kRows; ++r) sums[r] += row[k] * matrix[r * leading + k];
  }
}

// out[columns] += factors[r] * (row r of matrix) over kRows rows.
template <int kRows>
KILN_ALWAYS_INLINE void AddRows(const float* factors, const float* matrix,
                                int64_t leading, int64_t columns, float* out) {
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    Lanes sums, x;
    Load(out + j, sums);
    for (int r = 0; r < kRows; ++r) {
      Load(matrix + r * leading + j, x);
      sums += factors[r] * x;
    }
    std::memcpy(out + j, &sums, sizeof(sums));
  }
  for (; j < columns; ++j) {
    for (int r = 0; r < kRows; ++r)
      out[j] += factors[r] * matrix[r * leading + j];
  }
}

// What a weight of 0 is relative to makes no difference.
KILN_ALWAYS_INLINE float Finite(float top) { return top == kNothing ? 0 : top; }

KILN_ALWAYS_INLINE void ContinueRow(float* scores, int64_t columns,
                                    RowSoftmax& row, float* sums,
                                    int64_t width) {
  const float before = row.top;
  row.top = std::max(row.top, LargestLoop(scores, columns));
  if (row.top > before && row.total != 0) {
    float shrunk = before;
    ExponentiateLoop(&shrunk, 1, row.top);
    row.total *= shrunk;
    ScaleLoop(shrunk, sums, width);
  }
  row.total += WeighLoop(scores, columns, Finite(row.top));
}

}  // namespace

void StartRows(float* scores, int64_t rows, int64_t columns, int64_t leading,
               RowSoftmax* softmax) {
  InVectors([=]() KILN_LOOP {
    for (int64_t i = 0; i < rows; ++i) {
      float* const row = scores + i * leading;
      softmax[i].top = LargestLoop(row, columns);
      softmax[i].total = WeighLoop(row, columns, Finite(softmax[i].top));
    }
  });
}

void ContinueRows(float* scores, int64_t rows, int64_t columns, int64_t leading,
                  RowSoftmax* softmax, float* sums, int64_t width) {
  InVectors([=]() KILN_LOOP {
    for (int64_t i = 0; i < rows; ++i) {
      ContinueRow(scores + i * leading, columns, softmax[i], sums + i * width,
                  width);
    }
  });
}

void Exponentiate(float* scores, int64_t count, float top) {
  InVectors([=]() KILN_LOOP { ExponentiateLoop(scores, count, top); });
}

void ScoreGradients(const float* p, float* dp, int64_t count, float delta,
                    float scale) {
  InVectors([=]() KILN_LOOP {
    for (int64_t j = 0; j < count; ++j) dp[j] = p[j] * (dp[j] - delta) * scale;
  });
}

void ScaleBy(float factor, float* values, int64_t count) {
  InVectors([=]() KILN_LOOP { ScaleLoop(factor, values, count); });
}

double DotOf(const float* a, const float* b, int64_t count) {
  return InVectors([=]() KILN_LOOP {
    constexpr int64_t kDoubles = sizeof(Doubles) / sizeof(double);
    Doubles sums{};
    int64_t j = 0;
    for (; j + kDoubles <= count; j += kDoubles) {
      HalfLanes x, y;
      Load(a + j, x);
      Load(b + j, y);
      sums += __builtin_convertvector(x, Doubles) *
              __builtin_convertvector(y, Doubles);
    }
    double sum = sums[0] + sums[1] + sums[2] + sums[3];
    for (; j < count; ++j) sum += static_cast<double>(a[j]) * b[j];
    return sum;
  });
}

void Widen(const uint16_t* from, DType dtype, int64_t leading, int64_t rows,
           int64_t columns, float* to) {
  InVectors([=]() KILN_LOOP {
    for (int64_t i = 0; i < rows; ++i) {
      const uint16_t* const row = from + i * leading;
      if (i + kRowsAhead < rows) Prefetch(row + kRowsAhead * leading, columns);
      float* const wide = to + i * columns;
      if (dtype == DType::kBFloat16) {
        for (int64_t j = 0; j < columns; ++j) wide[j] = FloatOfBFloat16(row[j]);
      } else {
        for (int64_t j = 0; j < columns; ++j) wide[j] = FloatOfFloat16(row[j]);
      }
    }
  });
}

void Narrow(const float* from, DType dtype, int64_t count, uint16_t* to) {
  InVectors([=]() KILN_LOOP {
    if (dtype == DType::kBFloat16) {
      for (int64_t j = 0; j < count; ++j) to[j] = BFloat16Of(from[j]);
    } else {
      for (int64_t j = 0; j < count; ++j) to[j] = Float16Of(from[j]);
    }
  });
}

void RowTimesTransposed(const float* row, const float* matrix, int64_t leading,
                        int64_t columns, int64_t depth, float scale,
                        float* out) {
  InVectors([=]() KILN_LOOP {
    int64_t j = 0;
    for (; j + kRowsAtOnce <= columns; j += kRowsAtOnce) {
      float sums[kRowsAtOnce];
      const float* const rows = matrix + j * leading;
      if (j + kRowsAhead + kRowsAtOnce <= columns) {
        for (int r = 0; r < kRowsAtOnce; ++r)
          Prefetch(rows + (kRowsAhead + r) * leading, depth);
      }
      DotRows<kRowsAtOnce>(row, rows, leading, depth, sums);
      for (int r = 0; r < kRowsAtOnce; ++r) out[j + r] = scale * sums[r];
    }
    for (; j < columns; ++j) {
      DotRows<1>(row, matrix + j * leading, leading, depth, out + j);
      out[j] *= scale;
    }
  });
}

void AddRowTimes(const float* row, const float* matrix, int64_t leading,
                 int64_t columns, int64_t depth, float* out) {
  InVectors([=]() KILN_LOOP {
    int64_t k = 0;
    for (; k + kRowsAtOnce <= depth; k += kRowsAtOnce) {
      const float* const rows = matrix + k * leading;
      if (k + kRowsAhead + kRowsAtOnce <= depth) {
        for (int r = 0; r < kRowsAtOnce; ++r)
          Prefetch(rows + (kRowsAhead + r) * leading, columns);
      }
      AddRows<kRowsAtOnce>(row + k, rows, leading, columns, out);
    }
    for (; k < depth; ++k)
      AddRows<1>(row + k, matrix + k * leading, leading, columns, out);
  });
}

}  // namespace kiln
