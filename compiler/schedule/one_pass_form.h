#ifndef KILN_COMPILER_SCHEDULE_ONE_PASS_FORM_H_
#define KILN_COMPILER_SCHEDULE_ONE_PASS_FORM_H_

#include <optional>

#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Replaces each pair of float32 reductions, of which the second needs the first, by one
// tuple reduction, which needs only one pass over the data:
//
//   max of x, sum of exp(x - max)                      kSoftmax
//   sum of x, sum of (x - sum / n)^2 for n points      kMoments
//
// None if `nest` has no such pair. Other reductions and all other nodes do not change.
// Results differ only by rounding.
//
// Pure. Linear in the body, times its reductions.
std::optional<LoopNest> OnePassForm(const LoopNest& nest);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ONE_PASS_FORM_H_
