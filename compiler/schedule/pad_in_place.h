#ifndef KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_
#define KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_

#include <cstdint>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Padding without a copy. If one product reads a matrix with added columns, and each
// row of the matrix has room for them in its memory, the padding writes only the added
// columns there, and the product reads the longer rows.
//
// The sizes of the matrix must be known. It is a temporary that nests write completely
// or, on request, an input that no step writes before the product. Nothing is changed
// if something other than the product reads the padded matrix: its kernel could do the
// padding.
//
// Source: Inductor's inplace_padding. Both are linear in steps for each padding.

// Gives rows of more than kLongRow elements of such matrices a longer stride, as
// comprehensive_padding does, to make room. Returns how many matrices got one.
int64_t MakeRoomForPads(LoopProgram& program);

// Pads in place the matrices that have room, with `inputs` those among them too: their
// memory must extend to the end of the last row's stride. Returns how many.
int64_t PadInPlace(LoopProgram& program, bool inputs = false);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_
