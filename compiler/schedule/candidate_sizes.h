#ifndef KILN_COMPILER_SCHEDULE_CANDIDATE_SIZES_H_
#define KILN_COMPILER_SCHEDULE_CANDIDATE_SIZES_H_

// Numbers shared by the lists of candidates in variant_candidates.cc,
// column_candidates.cc and scan_candidates.cc.

#include <cstdint>
#include <vector>

#include "compiler/schedule/cost_model.h"

namespace kiln {

// The most parts of one outer point. The last block adds all of them.
inline constexpr int64_t kMostParts = 1024;

// A width of vectors and whether groups are peeled for it.
struct Width {
  int vector;
  int peel;
};

// The widths to try along the axis: the widest that needs no peeling, and wider ones with
// peeling.
std::vector<Width> WidthsOn(const NestCosts& costs, uint32_t axis);

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

// The number of parts that gives each multiprocessor about `per_multiprocessor` blocks, if
// there are `blocks` without parts. A part has at least `least_steps` of the `steps`.
int PartsFor(const NestCosts& costs, int64_t blocks, int64_t steps,
             int64_t least_steps, int per_multiprocessor);

// The longest row that a kernel may meet.
int64_t LongestRow(const NestCosts& costs);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CANDIDATE_SIZES_H_
