#ifndef KILN_COMPILER_SCHEDULE_PAD_ROWS_H_
#define KILN_COMPILER_SCHEDULE_PAD_ROWS_H_

#include <cstdint>
#include <optional>

#include "compiler/loop/loop_nest.h"

// Rows that begin on whole vectors: libraries multiply matrices several times
// faster when each row does.

namespace kiln {

// Rows of more elements are long. Source: Inductor's padding_stride_threshold.
inline constexpr int64_t kLongRow = 1024;

// The number of elements of `dtype` in 16 bytes. Rows should begin at multiples of it.
int64_t RowAlignment(DType dtype);

// The stride that aligns rows of `length` elements: long ones to cache lines of 128
// bytes (Inductor's padding_alignment_bytes and padding_stride_threshold), others to 16
// bytes.
int64_t PaddedStride(int64_t length, DType dtype);

// The stride that aligns the rows of temporary `b`. None if they are aligned already,
// if a step needs its memory to be dense, or if the length of its rows is not known.
std::optional<int64_t> StrideForRows(const LoopProgram& program, BufferId b);

// `view`, of dense rows of buffer `b`, as a view of rows that are `stride` apart. None
// if rows cannot be told from its strides.
std::optional<View> OnPaddedRows(const View& view, const Buffer& b,
                                 int64_t stride);

// Gives the rows of `b` that stride, which StrideForRows gave, everywhere.
// Linear in the program.
void PadRows(LoopProgram& program, BufferId b, int64_t stride);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PAD_ROWS_H_
