#ifndef KILN_COMPILER_SCHEDULE_JAM_WINDOWS_H_
#define KILN_COMPILER_SCHEDULE_JAM_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/candidate_limits.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Unrolls and jams a nest: `count` neighbours along `axis` share one body, in which equal
// loads are merged. The count must divide the extent. Masks that always hold, or never,
// are removed. Pure.
LoopNest JamAxis(const LoopNest& nest, uint32_t axis, int64_t count,
                 const ShapeEnv& shapes);

// Jams sums over windows: neighbours read mostly the same elements and the same weights.
// Tries each axis but the last with counts of 2 and 4, and of up to 14 if a reduction
// goes over the window's rows. Takes the kernel with the lowest price, if that is a
// tenth below the nest's own and saves three tenths of the loads that depend on the
// axis. Returns whether the nest changed.
//
// Only on CUDA, and only for flat nests with their final order of loops. They must load
// many elements of one buffer and none of what they store.
//
// Linear in the body for each axis and count.
bool JamWindows(LoopNest& nest, const std::vector<Buffer>& buffers,
                const ShapeEnv& shapes, const Target& target,
                const CandidateLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_JAM_WINDOWS_H_
