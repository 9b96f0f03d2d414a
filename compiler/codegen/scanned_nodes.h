#ifndef KILN_COMPILER_CODEGEN_SCANNED_NODES_H_
#define KILN_COMPILER_CODEGEN_SCANNED_NODES_H_

#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// The nodes of a nest that scans or sorts along its reduced axis, by the time when they
// are computed. Each list is in order. A node may be in both of the last two lists.
struct ScannedNodes {
  std::vector<ScalarId> ops;    // kScan, kSort and kTally
  std::vector<ScalarId> outer;  // once an outer point
  std::vector<ScalarId>
      inputs;  // what the operations take, at each reduced point
  std::vector<ScalarId> stored;  // what is stored, once their results are there
};
ScannedNodes NodesOfScans(const LoopNest& nest, const NestFacts& facts);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_SCANNED_NODES_H_
