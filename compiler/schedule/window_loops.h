#ifndef KILN_COMPILER_SCHEDULE_WINDOW_LOOPS_H_
#define KILN_COMPILER_SCHEDULE_WINDOW_LOOPS_H_

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Nests that compute a convolution, in order, and the temporaries among them, whose
// numbers follow those of the program's buffers.
struct WindowLoops {
  std::vector<LoopNest> nests;
  std::vector<Buffer> buffers;
};

// A verified convolution of which each channel of the image is a group (depthwise),
// as loops of ours that can be fused like any other:
//
//   result   each element the sum over its window, written out; cells that may lie
//            outside of the image are masked. Where channels lie side by side, a
//            reduction over the window's rows (of the first dimension) if there are
//            three or more of three or more cells
//   image    likewise, over the window turned round; of a stride only the results
//            that reach the element
//   weights  a reduction over images and places for each, one nest for a row of the
//            window: what it reads serves the whole row
//
// Sums are in the contraction's type, f32 for half types. Where channels lie side by
// side in what is written, the weights are copied so that theirs do, too.
//
// None for any other convolution, a window of more than 81 cells, one whose gradient
// of the image has a stride and a dilation, and an operand whose place in its buffer
// is not an index. Pure.
std::optional<WindowLoops> WindowLoopsOf(const Contraction& convolution,
                                         const std::vector<Buffer>& buffers,
                                         const ShapeEnv& shapes);

// Products of two factors that the sums are of, at the hints.
double WindowProducts(const Contraction& convolution, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_WINDOW_LOOPS_H_
