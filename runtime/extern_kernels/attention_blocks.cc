#include "runtime/extern_kernels/attention_blocks.h"

#include <algorithm>

#include "runtime/extern_kernels/attention_loops.h"
#include "runtime/extern_kernels/half_float.h"

namespace kiln {
namespace {

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

// Whether loops of ours computed a product of one row, for which sgemm is slow.
bool MultiplyRow(const FloatBlock& a, const FloatBlock& b, float scale,
                 bool adds, float* out) {
  if (a.rows != 1 || a.transposed) return false;
  if (b.transposed && !adds) {
    RowTimesTransposed(a.data, b.data, b.leading, b.columns, b.rows, scale,
                       out);
    return true;
  }
  if (b.transposed || scale != 1) return false;
  if (!adds) std::fill_n(out, b.columns, 0.0f);
  AddRowTimes(a.data, b.data, b.leading, b.columns, b.rows, out);
  return true;
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
  if (dtype != DType::kFloat32 && strides.column == 1) {
    Widen(static_cast<const uint16_t*>(data) + at, dtype, strides.row, rows,
          columns, room);
    return {room, rows, columns, columns, false};
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
  for (int64_t i = 0; i < rows; ++i, from += columns)
    WriteRow(Offset(batch, head, row + i), from);
}

void HeadArray::WriteRow(int64_t at, const float* from) const {
  if (dtype == DType::kFloat32) {
    float* const to = static_cast<float*>(data) + at;
    if (strides.column == 1) {
      std::copy_n(from, columns, to);
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j * strides.column] = from[j];
    }
    return;
  }
  uint16_t* const to = static_cast<uint16_t*>(data) + at;
  if (strides.column == 1) {
    Narrow(from, dtype, columns, to);
  } else {
    for (int64_t j = 0; j < columns; ++j)
      Narrow(from + j, dtype, 1, to + j * strides.column);
  }
}

dnnl_status_t MultiplyBlocks(const DnnlLibrary* library, const FloatBlock& a,
                             const FloatBlock& b, float scale, bool adds,
                             float* out, int64_t leading) {
  if (MultiplyRow(a, b, scale, adds, out)) return dnnl_success;
  if (scale == 0) {
    // The library would neither read the factors nor write the result.
    if (adds) return dnnl_success;
    const dnnl_status_t status =
        MultiplyBlocks(library, a, b, 1, false, out, leading);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < b.columns; ++j) out[i * leading + j] *= 0.0f;
    return status;
  }
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

}  // namespace kiln
