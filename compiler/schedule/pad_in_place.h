#ifndef KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_
#define KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_

#include <cstdint>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Padding without a copy. A matrix that one product reads with columns added behind
// its own gets them in its own memory, where each row has room for them: the padding
// then writes those columns, and the product reads the longer rows.
//
// The matrix is of known sizes, and a temporary that nests write whole; or an input,
// where those are asked for, that is not written before the product. Whatever else
// reads the padded one could take the padding into its kernel; then all stays.
//
// Source: Inductor's inplace_padding. Both are linear in steps for each padding.

// Gives the rows of such matrices a longer stride where that makes the room, as
// comprehensive_padding would: rows of over kLongRow elements. Returns how many.
int64_t MakeRoomForPads(LoopProgram& program);

// Pads in place what has the room; of `inputs` too, whose memory then has to reach
// to the end of the last row's stride. Returns how many.
int64_t PadInPlace(LoopProgram& program, bool inputs = false);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PAD_IN_PLACE_H_
