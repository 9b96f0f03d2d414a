#ifndef KILN_COMPILER_SCHEDULE_JAM_WINDOWS_H_
#define KILN_COMPILER_SCHEDULE_JAM_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// `nest` with `count` neighbours along `axis` in one body, where equal loads are one.
// The count must divide the extent. Masks that hold, or fail, everywhere then are gone.
LoopNest JamAxis(const LoopNest& nest, uint32_t axis, int64_t count,
                 const ShapeEnv& shapes);

// Jams neighbours of a window's sum, which read most of each other's elements and the
// same weights. Of all axes, by 2 and by 4, and by up to 14 where a reduction goes over
// the window's rows, it takes the kernel with the lowest price, if that is a tenth below
// the nest's own and the jam saves three tenths of the loads that move along the axis.
// Only on CUDA, and only flat nests in their final order that load many elements of one
// buffer and none of what they store. Returns whether the nest changed.
//
// Linear in the body for each axis.
bool JamWindows(LoopNest& nest, const std::vector<Buffer>& buffers,
                const ShapeEnv& shapes, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_JAM_WINDOWS_H_
