#ifndef KILN_COMPILER_SCHEDULE_TILE_ACCESSES_H_
#define KILN_COMPILER_SCHEDULE_TILE_ACCESSES_H_

// Chooses which accesses of a tiled pointwise nest go through shared memory.

#include <cstdint>
#include <vector>

#include "compiler/schedule/nest_facts.h"

namespace kiln {

// Accesses that are contiguous along one axis and strided along the last one. Only as many
// as have tiles that together fit into 40 KB of shared memory.
struct TileAccesses {
  std::vector<ScalarId> loads;   // without a mask or a loaded index
  std::vector<uint32_t> stores;  // plain ones
  bool empty() const { return loads.empty() && stores.empty(); }
};
TileAccesses AccessesAcross(const LoopNest& nest, const NestFacts& facts,
                            const std::vector<Buffer>& buffers, uint32_t across,
                            int edge, int depth);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_TILE_ACCESSES_H_
