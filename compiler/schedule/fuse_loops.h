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

// Merges nests that may share a kernel, those that save most memory traffic
// first: a value that one stores and the other reads counts twice when nobody
// else needs it, a buffer that both read counts once. Then small nests over
// equal spaces that share nothing, for the launches they save; but not two of
// many that are alike (combine_nests.h).
//
// Steps come out in an order that keeps every dependency; stores to
// temporaries that nobody reads any more are gone.
//
// Candidates are the neighbours over shared buffers, so that the work is
// linear in accesses, but for the reachability sets (a word of 64 steps a step).
FusionReport FuseLoops(LoopProgram& program, const Target& target,
                       const FusionOptions& options);

// Drops stores to temporaries that no step and no output reads, and steps that
// then do nothing.
void DropDeadStores(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSE_LOOPS_H_
