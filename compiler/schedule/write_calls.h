#ifndef KILN_COMPILER_SCHEDULE_WRITE_CALLS_H_
#define KILN_COMPILER_SCHEDULE_WRITE_CALLS_H_

#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/library_call.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// The library call that computes a step. A library must be able to compute the
// contraction (choose_contraction.h). Pure.
LibraryCall CallOf(const Contraction& contraction,
                   const std::vector<Buffer>& buffers, const ShapeEnv& shapes);
LibraryCall CallOf(const Attention& attention);
LibraryCall CallOf(const RowOrder& order);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_WRITE_CALLS_H_
