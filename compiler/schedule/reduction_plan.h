#ifndef KILN_COMPILER_SCHEDULE_REDUCTION_PLAN_H_
#define KILN_COMPILER_SCHEDULE_REDUCTION_PLAN_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// When a reduction is cut in two stages. Functions of shapes alone, so that
// results do not depend on the chip.
struct SplitLimits {
  int64_t least_reduced = 4096;             // elements of one result
  int64_t least_points = int64_t{1} << 22;  // of all results together
  int64_t most_outer = 512;  // results; more of them fill a device as it is
  int64_t parallel = int64_t{1} << 15;  // parts times results worth having
  int64_t most_parts = 256;
};

// Cuts long reductions with few results in two kernels: partial results of
// equal stretches of the first reduced axis, then their reduction with what
// followed. Deterministic: the order of terms is fixed by the shapes.
//
// Left whole: nests that store at reduced points, whose reductions build on
// one another, that scan or carry tuples, whose axis has no good divisor, and
// all nests for a CPU, which walks columns in vectors anyway.
//
// Returns how many were cut.
int SplitLongReductions(LoopProgram& program, const Target& target,
                        const SplitLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_REDUCTION_PLAN_H_
