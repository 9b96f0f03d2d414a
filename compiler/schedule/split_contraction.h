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

// A product of two factors as they are, at these points of the result's axis `axis`,
// with their part of the operands and of what its body reads. Pure.
Contraction PartOf(const Contraction& product, size_t axis,
                   const Points& points);

// Such a product in two parts: the points of the result's
// axis `axis` below `at`, and the others, each with its part of the operands and
// of what its body reads. Pure.
std::pair<Contraction, Contraction> SplitResult(const Contraction& product,
                                                size_t axis, int64_t at);

// The same of the summed axis: the first of the two is the sum from `at` on,
// which is rounded to the result's type and kept in a new temporary of `program`;
// the second adds it to its own.
std::pair<Contraction, Contraction> SplitSum(const Contraction& product,
                                             int64_t at, LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SPLIT_CONTRACTION_H_
