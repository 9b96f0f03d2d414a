#ifndef KILN_COMPILER_SCHEDULE_COLUMN_SUMS_H_
#define KILN_COMPILER_SCHEDULE_COLUMN_SUMS_H_

// A sum over rows, computed by a kernel that walks the rows for another reason:
// the weight gradients of a layer norm beside its input gradient.
//
// A nest that sums columns becomes two. The first has no reduction: it adds each
// row's values to the partial sums of the row's stretch (StoreMode::kSum), so
// that it can join a nest whose reductions run along the rows. The second adds
// the stretches and does what the old nest did with its sums.

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

struct ColumnSums {
  LoopNest adds;                 // [rows, columns], no axis reduced
  LoopNest finishes;             // [columns | stretches]
  std::vector<Buffer> partials;  // [stretches, columns], one a sum
};

// Splits `nest`. Its rows are its reduced points; a stretch is `stretch` of them. The
// partial sums are the buffers from `first_buffer` on. The first index of their stores
// is 0 until SetStretches sets it: it depends on the nest that `adds` is merged into.
//
// None if the nest has a reduction other than a sum of float32 or float64, if a
// reduction reads the result of another, if a value stored for each row needs a sum, or
// if there are no outer axes.
std::optional<ColumnSums> TakeColumnSumsApart(const LoopNest& nest,
                                              int64_t stretch,
                                              BufferId first_buffer,
                                              const ShapeEnv& shapes);

// Gives the kSum stores of `nest` their first index.
void SetStretches(LoopNest& nest);

// The stretch of the nest's kSum stores; 0 when it has none.
int64_t StretchOf(const LoopNest& nest);

// Whether all kSum stores of `nest`, whose addresses are flat, are of stretches
// of outer points in the order of its axes, and of one column a reduced point.
bool StretchesAreInOrder(const LoopNest& nest, const NestFacts& facts,
                         const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COLUMN_SUMS_H_
