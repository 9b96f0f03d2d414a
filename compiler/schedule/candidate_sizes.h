#ifndef KILN_COMPILER_SCHEDULE_CANDIDATE_SIZES_H_
#define KILN_COMPILER_SCHEDULE_CANDIDATE_SIZES_H_

// Numbers that the lists of candidates share: variant_candidates.cc and
// scan_candidates.cc.

#include <cstdint>
#include <vector>

#include "compiler/schedule/cost_model.h"

namespace kiln {

// Parts of one outer point; the last block adds them all.
inline constexpr int64_t kMostParts = 1024;

// A width of vectors and whether groups are peeled for it.
struct Width {
  int vector;
  int peel;
};

// The widest vector that needs no peeling; and with peeling the widest of all.
std::vector<Width> WidthsOn(const NestCosts& costs, uint32_t axis);

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

// Parts that give the chip about `per_multiprocessor` blocks a multiprocessor, if
// without parts it has `blocks`; none is shorter than `least_steps` of its `steps`.
int PartsFor(const NestCosts& costs, int64_t blocks, int64_t steps,
             int64_t least_steps, int per_multiprocessor);

// The longest row that a kernel may meet.
int64_t LongestRow(const NestCosts& costs);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CANDIDATE_SIZES_H_
