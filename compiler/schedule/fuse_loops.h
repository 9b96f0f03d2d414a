#ifndef KILN_COMPILER_SCHEDULE_FUSE_LOOPS_H_
#define KILN_COMPILER_SCHEDULE_FUSE_LOOPS_H_

#include <string>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/fusion_rules.h"

namespace kiln {

// A pair that stayed apart, for people.
struct ApartPair {
  std::string first, second;  // origins
  ApartBecause because;
  std::string detail;
};

struct FusionReport {
  int merges = 0;
  std::vector<ApartPair> apart;  // filled when asked for
};

struct FusionOptions {
  FusionLimits limits;
  bool explain = false;
};

// Merges nests that may share a kernel where the one is cheaper than the two
// (nest_price.h), by a minimum. Pairs that save most memory traffic are tried
// first: a value that one nest stores and the other reads counts twice when no other
// nest reads it, a buffer that both read counts once. Then small nests over equal
// spaces that share nothing, for the launches they save; but not pairs of many
// equal nests (combine_nests.h).
//
// The steps keep an order that respects every dependency. Stores to temporaries that
// no step reads any more are removed.
//
// Only nests that share a buffer are candidates, so the search is linear in the number
// of accesses. The reachability bit sets add one 64-bit word per 64 steps, for each
// step.
FusionReport FuseLoops(LoopProgram& program, const Target& target,
                       const FusionOptions& options);

// Drops stores to temporaries that no step and no output reads, and steps that
// then do nothing.
void DropDeadStores(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSE_LOOPS_H_
