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

// Elements of `dtype` in 16 bytes, what a row should begin on a multiple of.
int64_t RowAlignment(DType dtype);

// The stride of rows of `length` elements that makes them begin so: on whole
// cache lines of 128 bytes where rows are long (Inductor's padding_alignment_bytes
// and padding_stride_threshold), on 16 bytes else.
int64_t PaddedStride(int64_t length, DType dtype);

// The stride that the rows of temporary `b` can be given: its elements then lie
// elsewhere, and nobody sees it. None where its rows are aligned already, where
// a step needs its memory dense, or where the length of its rows is not known.
std::optional<int64_t> StrideForRows(const LoopProgram& program, BufferId b);

// `view`, on dense rows of buffer `b`, on rows that are `stride` apart; none
// where it does not tell rows apart.
std::optional<View> OnPaddedRows(const View& view, const Buffer& b,
                                 int64_t stride);

// Gives the rows of `b` that stride, which StrideForRows gave, everywhere.
// Linear in the program.
void PadRows(LoopProgram& program, BufferId b, int64_t stride);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PAD_ROWS_H_
