#ifndef KILN_TESTS_SUPPORT_RANDOM_NEST_H_
#define KILN_TESTS_SUPPORT_RANDOM_NEST_H_

// Random loop nests, one for each seed: small enough for the interpreter, with
// values that stay small, so that a wrong element shows.

#include <cstdint>

#include "tests/support/nest_case.h"

namespace kiln {

// What a nest does, which decides the mappings that the schedule lists for it.
enum class NestFamily {
  kPoints,      // no reduction; broadcasts, padded rows, masks, shifted loads
  kTransposed,  // no reduction; an access that strides along the last axis
  kScatters,    // sums through loaded indices
  kRows,  // reductions along contiguous elements, alone or with what follows
  kLongRows,   // the same with rows that several blocks may share
  kColumns,    // reductions across rows
  kStretches,  // reductions along rows beside sums over stretches of rows
  kScans,      // running sums, maxima and minima, along rows and across them
  kSorts,      // all places or the first ones
  kTallies,    // how many equals come before, and a scatter by that
  kCounts,     // sums into few cells of each row
  kParts,      // several nests that share a launch
  kProducts,   // of matrices of half types
};
inline constexpr NestFamily kNestFamilies[] = {
    NestFamily::kPoints,    NestFamily::kTransposed, NestFamily::kScatters,
    NestFamily::kRows,      NestFamily::kLongRows,   NestFamily::kColumns,
    NestFamily::kStretches, NestFamily::kScans,      NestFamily::kSorts,
    NestFamily::kTallies,   NestFamily::kCounts,     NestFamily::kParts,
    NestFamily::kProducts};

struct RandomNest {
  NestCase nest;
  // Of its results, relative to 1 and to the value.
  double tolerance = 0;
};

// Equal arguments give equal nests.
RandomNest MakeRandomNest(NestFamily family, uint64_t seed);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RANDOM_NEST_H_
