#ifndef KILN_RUNTIME_EXTERN_KERNELS_ATTENTION_BLOCKS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_ATTENTION_BLOCKS_H_

#include <cstdint>

#include "proto/base/dtype.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/extern_kernel.h"

// What attention in blocks does with a few rows and columns at a time, in f32.

namespace kiln {

// Rows of floats, as they lie or transposed.
struct FloatBlock {
  const float* data = nullptr;
  int64_t rows = 0, columns = 0;  // of what is meant
  int64_t leading = 0;            // from row to row of what lies there
  bool transposed = false;        // which is the other way round

  FloatBlock Transposed() const {
    return {data, columns, rows, leading, !transposed};
  }
  // The rows from `first` on, of a block that is not transposed.
  FloatBlock Rows(int64_t first, int64_t count) const {
    return {data + first * leading, count, columns, leading, false};
  }
};

// An array of heads as a call has it.
struct HeadArray {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  AttentionProblem::Strides strides;
  int64_t columns = 0;

  // Rows of one head as floats: where they lie if they can be read there, else copied
  // to `room`.
  FloatBlock Read(int64_t batch, int64_t head, int64_t row, int64_t rows,
                  float* room) const;
  // Writes rows of `columns` floats that lie dense.
  void Write(int64_t batch, int64_t head, int64_t row, int64_t rows,
             const float* from) const;
  // Adds `count` numbers of a row, from `column` on.
  void AddTo(float* to, int64_t batch, int64_t head, int64_t row,
             int64_t column, int64_t count) const;
  float At(int64_t batch, int64_t head, int64_t row, int64_t column) const;

 private:
  int64_t Offset(int64_t batch, int64_t head, int64_t row) const {
    return batch * strides.batch + head * strides.head + row * strides.row;
  }
  void WriteRow(int64_t at, const float* from) const;
};

// out[a.rows, b.columns] = scale * a @ b, or that added to it, by oneDNN's sgemm or,
// where `library` is null or `a` is one row, loops of ours. `leading`: of out.
dnnl_status_t MultiplyBlocks(const DnnlLibrary* library, const FloatBlock& a,
                             const FloatBlock& b, float scale, bool adds,
                             float* out, int64_t leading);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_ATTENTION_BLOCKS_H_
