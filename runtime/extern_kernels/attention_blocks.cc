#include "runtime/extern_kernels/attention_blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/extern_kernels/half_float.h"
#include "runtime/extern_kernels/matmul_finish.h"

namespace kiln {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

template <typename Get, typename Use>
void VisitRow(const Get& get, int64_t step, int64_t count, const Use& use) {
  if (step == 1) {
    for (int64_t j = 0; j < count; ++j) use(j, get(j));
  } else {
    for (int64_t j = 0; j < count; ++j) use(j, get(j * step));
  }
}

// use(j, x) for each of `count` numbers, of which the first lies at `first`.
template <typename Use>
void VisitNumbers(const void* data, DType dtype, int64_t first, int64_t step,
                  int64_t count, const Use& use) {
  if (dtype == DType::kFloat32) {
    const float* const x = static_cast<const float*>(data) + first;
    VisitRow([x](int64_t j) { return x[j]; }, step, count, use);
    return;
  }
  const uint16_t* const x = static_cast<const uint16_t*>(data) + first;
  if (dtype == DType::kBFloat16) {
    VisitRow([x](int64_t j) { return FloatOfBFloat16(x[j]); }, step, count,
             use);
  } else {
    VisitRow([x](int64_t j) { return FloatOfFloat16(x[j]); }, step, count, use);
  }
}

// These are compiled twice: a loop that is inlined is of its caller's vectors. Sums and
// maxima go in eight chains, whatever those are.
#define KILN_ALWAYS_INLINE inline __attribute__((always_inline))

using Lanes = float __attribute__((vector_size(32)));
constexpr int64_t kLanes = sizeof(Lanes) / sizeof(float);

KILN_ALWAYS_INLINE void Load(const float* from, Lanes& lanes) {
  std::memcpy(&lanes, from, sizeof(lanes));
}

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

KILN_ALWAYS_INLINE void ScoreGradientsLoop(const float* p, float* dp,
                                           int64_t count, float delta,
                                           float scale) {
  for (int64_t j = 0; j < count; ++j) dp[j] = p[j] * (dp[j] - delta) * scale;
}

KILN_ALWAYS_INLINE float ExponentiateLoop(float* scores, int64_t count,
                                          float top) {
  for (int64_t j = 0; j < count; ++j) {
    const float away = scores[j] - top;
    const float weight = VectorExp(away);
    scores[j] = away < -87.0f ? 0.0f : weight;
  }
  Lanes sums{};
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Lanes x;
    Load(scores + j, x);
    sums += x;
  }
  float sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += sums[l];
  for (; j < count; ++j) sum += scores[j];
  return sum;
}

__attribute__((target("avx2,fma"))) float LargestWithAvx2(const float* scores,
                                                          int64_t count) {
  return LargestLoop(scores, count);
}
__attribute__((target("avx2,fma"))) float ExponentiateWithAvx2(float* scores,
                                                               int64_t count,
                                                               float top) {
  return ExponentiateLoop(scores, count, top);
}

__attribute__((target("avx2,fma"))) void ScoreGradientsWithAvx2(
    const float* p, float* dp, int64_t count, float delta, float scale) {
  ScoreGradientsLoop(p, dp, count, delta, scale);
}

bool HasAvx2() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

// out[rows, columns] += scale * a @ b.
void AddProduct(const FloatBlock& a, const FloatBlock& b, float scale,
                float* out, int64_t leading) {
  const int64_t row = a.transposed ? 1 : a.leading;
  const int64_t depth = a.transposed ? a.leading : 1;
  for (int64_t i = 0; i < a.rows; ++i) {
    float* const sums = out + i * leading;
    for (int64_t k = 0; k < a.columns; ++k) {
      const float factor = scale * a.data[i * row + k * depth];
      if (b.transposed) {
        for (int64_t j = 0; j < b.columns; ++j)
          sums[j] += factor * b.data[j * b.leading + k];
      } else {
        const float* const from = b.data + k * b.leading;
        for (int64_t j = 0; j < b.columns; ++j) sums[j] += factor * from[j];
      }
    }
  }
}

}  // namespace

float HeadArray::At(int64_t batch, int64_t head, int64_t row,
                    int64_t column) const {
  const int64_t at = Offset(batch, head, row) + column * strides.column;
  if (dtype == DType::kFloat32) return static_cast<const float*>(data)[at];
  const uint16_t bits = static_cast<const uint16_t*>(data)[at];
  return dtype == DType::kBFloat16 ? FloatOfBFloat16(bits)
                                   : FloatOfFloat16(bits);
}

FloatBlock HeadArray::Read(int64_t batch, int64_t head, int64_t row,
                           int64_t rows, float* room) const {
  const int64_t at = Offset(batch, head, row);
  if (dtype == DType::kFloat32 && strides.column == 1 &&
      (rows == 1 || strides.row >= columns)) {
    // sgemm wants a leading dimension of at least the columns, of one row too.
    return {static_cast<const float*>(data) + at, rows, columns,
            std::max(strides.row, columns), false};
  }
  for (int64_t i = 0; i < rows; ++i) {
    float* const to = room + i * columns;
    VisitNumbers(data, dtype, at + i * strides.row, strides.column, columns,
                 [to](int64_t j, float x) { to[j] = x; });
  }
  return {room, rows, columns, columns, false};
}

void HeadArray::AddTo(float* to, int64_t batch, int64_t head, int64_t row,
                      int64_t column, int64_t count) const {
  VisitNumbers(data, dtype, Offset(batch, head, row) + column * strides.column,
               strides.column, count, [to](int64_t j, float x) { to[j] += x; });
}

void HeadArray::Write(int64_t batch, int64_t head, int64_t row, int64_t rows,
                      const float* from) const {
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = Offset(batch, head, row + i);
    for (int64_t j = 0; j < columns; ++j, ++from) {
      const int64_t to = at + j * strides.column;
      if (dtype == DType::kFloat32) {
        static_cast<float*>(data)[to] = *from;
      } else {
        static_cast<uint16_t*>(data)[to] =
            dtype == DType::kBFloat16 ? BFloat16Of(*from) : Float16Of(*from);
      }
    }
  }
}

dnnl_status_t MultiplyBlocks(const DnnlLibrary* library, const FloatBlock& a,
                             const FloatBlock& b, float scale, bool adds,
                             float* out, int64_t leading) {
  if (library != nullptr) {
    return library->dnnl_sgemm(a.transposed ? 'T' : 'N',
                               b.transposed ? 'T' : 'N', a.rows, b.columns,
                               a.columns, scale, a.data, a.leading, b.data,
                               b.leading, adds ? 1.0f : 0.0f, out, leading);
  }
  if (!adds) {
    for (int64_t i = 0; i < a.rows; ++i)
      std::fill_n(out + i * leading, b.columns, 0.0f);
  }
  AddProduct(a, b, scale, out, leading);
  return dnnl_success;
}

float LargestOf(const float* scores, int64_t count) {
  return HasAvx2() ? LargestWithAvx2(scores, count)
                   : LargestLoop(scores, count);
}

float Exponentiate(float* scores, int64_t count, float top) {
  return HasAvx2() ? ExponentiateWithAvx2(scores, count, top)
                   : ExponentiateLoop(scores, count, top);
}

void ScoreGradients(const float* p, float* dp, int64_t count, float delta,
                    float scale) {
  HasAvx2() ? ScoreGradientsWithAvx2(p, dp, count, delta, scale)
            : ScoreGradientsLoop(p, dp, count, delta, scale);
}

void ScaleBy(float factor, float* values, int64_t count) {
  for (int64_t j = 0; j < count; ++j) values[j] *= factor;
}

}  // namespace kiln
