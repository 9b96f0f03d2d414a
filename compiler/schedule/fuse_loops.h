#ifndef KILN_COMPILER_SCHEDULE_FUSE_LOOPS_H_
#define KILN_COMPILER_SCHEDULE_FUSE_LOOPS_H_

#include <string>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/candidate_limits.h"
#include "compiler/schedule/fusion_rules.h"

namespace kiln {

// For people: two nests that were not merged.
struct ApartPair {
  std::string first, second;  // the operators that they came from
  ApartBecause because;
  std::string detail;
};

struct FusionReport {
  int merges = 0;
  std::vector<ApartPair> apart;  // filled if FusionOptions::explain is set
};

struct FusionOptions {
  FusionLimits limits;
  // What kernels may do. Without `split` no sums over rows are computed in stretches
  // beside other kernels (column_sums.h).
  CandidateLimits kernels;
  bool explain = false;
};

// Merges two nests into one if they may share a kernel, and if that kernel is cheaper
// than the two (nest_price.h) by at least kLeastSavedNs.
//
// Pairs that save the most memory traffic are tried first. A buffer that one nest stores
// and the other reads counts twice if no other step touches it; a buffer that both read
// counts once. Small nests over equal spaces are merged last, even if they share no
// buffer, because that saves a launch. This leaves groups of many equal nests to
// combine_nests.h.
//
// The order of the steps respects all dependencies. Stores to temporaries that no step
// reads any more are removed.
//
// Only nests that share a buffer are candidates, so the search is linear in the number
// of accesses. The reachability bit sets add one 64-bit word per 64 steps, for each
// step.
FusionReport FuseLoops(LoopProgram& program, const Target& target,
                       const FusionOptions& options);

// Removes stores to temporaries that no step and no output reads, and steps that have no
// stores left.
void DropDeadStores(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSE_LOOPS_H_
