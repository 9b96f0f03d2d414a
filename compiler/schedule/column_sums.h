#ifndef KILN_COMPILER_SCHEDULE_COLUMN_SUMS_H_
#define KILN_COMPILER_SCHEDULE_COLUMN_SUMS_H_

// Sums over rows that a kernel computes while it goes over the rows for another reason:
// for example the weight gradients of a layer norm beside its input gradient.
//
// A nest that sums columns is split in two. The first part has no reduction: rows are
// divided into stretches, and each row's values are added to the partial sums of its
// stretch (StoreMode::kSum). So it can be fused with a nest whose reductions run along
// the rows. The second part adds the partial sums and does what the old nest did with
// its sums.

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

struct ColumnSums {
  LoopNest adds;                 // axes [rows, columns], none reduced
  LoopNest finishes;             // axes [columns], and [stretches] reduced
  std::vector<Buffer> partials;  // [stretches, columns], one for each sum
};

// Splits `nest`. Its reduced points are the rows, and `stretch` of them are a stretch.
// The partial sums are new buffers, numbered from `first_buffer` on. The first index of
// their stores is 0 until SetStretches sets it, because it depends on the nest that
// `adds` is merged into.
//
// None if the nest has a reduction other than a sum of float32 or float64, if a
// reduction reads the result of another, if a value stored for each row needs a sum, or
// if there are no outer axes. Pure.
std::optional<ColumnSums> TakeColumnSumsApart(const LoopNest& nest,
                                              int64_t stretch,
                                              BufferId first_buffer,
                                              const ShapeEnv& shapes);

// Sets the first index of the kSum stores of `nest`: the number of the stretch.
void SetStretches(LoopNest& nest);

// The number of rows in a stretch of the nest's kSum stores; 0 if it has no such stores.
int64_t StretchOf(const LoopNest& nest);

// Whether each kSum store of `nest`, whose addresses are flat, has the form that
// SetStretches writes: stretches count outer points in the order of the axes, and each
// reduced point is a column.
bool StretchesAreInOrder(const LoopNest& nest, const NestFacts& facts,
                         const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COLUMN_SUMS_H_
