#ifndef KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_
#define KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_

#include <cstdint>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Padding without a copy. Applies if a product reads a matrix with added columns, and
// the memory behind each row of the matrix has room for them. Then the padding writes
// only the added columns, into that room, and the product reads the longer rows.
//
// The sizes of the matrix must be known. It must be a temporary that nests write
// completely or, on request, an input that no step writes before the product. A padded
// matrix that something other than the product reads is left alone, because that
// reader's kernel could do the padding.
//
// Source: Inductor's inplace_padding. Both functions are linear in steps for each
// padding.

// Makes room: gives such matrices a longer stride if their rows have more than kLongRow
// elements, as Inductor's comprehensive_padding does. Returns the number of matrices
// that got one.
int64_t MakeRoomForPads(LoopProgram& program);

// Pads the matrices that have room in place; inputs only if `inputs` is set. The memory
// of an input must then extend to the end of the last row's stride. Returns the number
// of matrices that were padded.
int64_t PadInPlace(LoopProgram& program, bool inputs = false);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_
