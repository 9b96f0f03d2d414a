#ifndef KILN_COMPILER_SCHEDULE_PAD_ROWS_H_
#define KILN_COMPILER_SCHEDULE_PAD_ROWS_H_

#include <cstdint>
#include <optional>

#include "compiler/loop/loop_nest.h"

// Longer strides, so that each row begins at a multiple of 16 bytes. Libraries multiply
// such matrices several times faster (align_contractions.h).

namespace kiln {

// Rows of more elements than this are long. Source: Inductor's padding_stride_threshold.
inline constexpr int64_t kLongRow = 1024;

// The number of elements of `dtype` in 16 bytes.
int64_t RowAlignment(DType dtype);

// Whether each row of the view, a view of `buffer`, begins at a multiple of 16 bytes in
// every run.
bool HasAlignedRows(const View& view, const Buffer& buffer);

// The stride, in elements, that aligns rows of `length` elements: long rows to cache
// lines of 128 bytes (Inductor's padding_alignment_bytes), others to 16 bytes.
int64_t PaddedStride(int64_t length, DType dtype);

// The stride, in elements, that aligns the rows of buffer `b`. None if the rows are
// aligned already, if `b` is no temporary, if a step needs its memory to be dense, or if
// the length of its rows is not known.
std::optional<int64_t> StrideForRows(const LoopProgram& program, BufferId b);

// Given a view of buffer `b` with dense rows, the view of the same elements when rows
// are `stride` elements apart. None if the view is not made of parts of rows.
std::optional<View> OnPaddedRows(const View& view, const Buffer& b,
                                 int64_t stride);

// Sets the stride of `b`'s rows to `stride`, a result of StrideForRows, in the buffer
// and in all views of it. Linear in the program.
void PadRows(LoopProgram& program, BufferId b, int64_t stride);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PAD_ROWS_H_
