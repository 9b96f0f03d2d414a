#ifndef KILN_COMPILER_SCHEDULE_WINDOW_LOOPS_H_
#define KILN_COMPILER_SCHEDULE_WINDOW_LOOPS_H_

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// The nests that compute a convolution, in order, and their temporaries, which are
// numbered after the program's buffers.
struct WindowLoops {
  std::vector<LoopNest> nests;
  std::vector<Buffer> buffers;
};

// A verified depthwise convolution (each channel of the image is a group) as nests, which
// can be fused like any other. By what is written:
//
//   result   Each element is the sum over its window, written out. Cells that may lie
//            outside of the image are masked. If channels are contiguous, and the window
//            has at least three rows (its first dimension) of at least three cells, the
//            rows are a reduction instead.
//   image    The same over the flipped window. With a stride, the sum has only the
//            results whose window contains the element.
//   weights  Each weight is a reduction over images and positions. A row of the window
//            is computed together, because its weights read the same elements.
//
// Sums have the contraction's type, which is f32 for half types. If channels are
// contiguous in what is written, the weights are copied to make theirs contiguous too.
//
// None for any other convolution, for a window of more than kMostUnrolledCells cells, for
// the gradient of the image with both a stride and a dilation, and if the view of an
// operand does not map to indices of its buffer. Pure.
std::optional<WindowLoops> WindowLoopsOf(const Contraction& convolution,
                                         const std::vector<Buffer>& buffers,
                                         const ShapeEnv& shapes);

// The number of multiplications of the convolution, with symbols at their hints.
double WindowProducts(const Contraction& convolution, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_WINDOW_LOOPS_H_
