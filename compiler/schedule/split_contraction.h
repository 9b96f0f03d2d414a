#ifndef KILN_COMPILER_SCHEDULE_SPLIT_CONTRACTION_H_
#define KILN_COMPILER_SCHEDULE_SPLIT_CONTRACTION_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Some points of an axis.
struct Points {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// The part of a product at these points of the result's axis `axis`, with that part of
// the operands and of what the body reads. The factors must have no prologue. Pure.
Contraction PartOf(const Contraction& product, size_t axis,
                   const Points& points);

// Such a product in two parts: the points of the result's axis `axis` below `at`, and
// the others. Pure.
std::pair<Contraction, Contraction> SplitResult(const Contraction& product,
                                                size_t axis, int64_t at);

// The same for the summed axis. The first part is the sum from `at` on, rounded to the
// result's type, in a new temporary of `program`. The second part adds it to its own
// sum.
std::pair<Contraction, Contraction> SplitSum(const Contraction& product,
                                             int64_t at, LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SPLIT_CONTRACTION_H_
