#ifndef KILN_COMPILER_SCHEDULE_SPLIT_CONTRACTION_H_
#define KILN_COMPILER_SCHEDULE_SPLIT_CONTRACTION_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Evenly spaced points of an axis: first, first + step, ..., `count` of them.
struct Points {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// The product over `points` of the axis alone: these rows or columns of the result, or
// these terms of its sums. It reads only the matching part of its operands and of what
// its body loads. The factors must have no prologue. Pure.
Contraction PartOf(const Contraction& product, size_t axis,
                   const Points& points);

// Splits a product in two: the points of the result's axis `axis` below `at`, and those
// from `at` on. Pure.
std::pair<Contraction, Contraction> SplitResult(const Contraction& product,
                                                size_t axis, int64_t at);

// Splits the summed axis of a product. The first result sums the terms from `at` on,
// rounds the sum to the result's type and stores it in a new temporary of `program`. The
// second result sums the terms below `at` and adds that temporary.
std::pair<Contraction, Contraction> SplitSum(const Contraction& product,
                                             int64_t at, LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SPLIT_CONTRACTION_H_
