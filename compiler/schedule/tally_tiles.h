#ifndef KILN_COMPILER_SCHEDULE_TALLY_TILES_H_
#define KILN_COMPILER_SCHEDULE_TALLY_TILES_H_

// The tiles, shared memory and workspace of a CudaTallies kernel.

#include <algorithm>

#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// Points per block.
inline int TileOf(const CudaTallies& v) { return v.threads * v.run; }
inline SymExpr TilesOf(const CudaTallies& v, const SymExpr& row) {
  return CeilDiv(row, int64_t{TileOf(v)});
}

// The bytes that threads exchange for each point: an address or a value, whichever is
// larger.
inline int64_t WidestCell(const LoopNest& nest,
                          const std::vector<Buffer>& buffers,
                          const NestFacts& facts) {
  int64_t bytes = facts.index32 ? 4 : 8;
  for (const Store& store : nest.stores)
    bytes = std::max(bytes, SizeInBytes(buffers[store.buffer].dtype));
  return bytes;
}

// The 32-bit words of shared memory for the counts of a block's warps and for two more
// numbers for each value; a multiple of 16 bytes.
inline int CountWordsOf(const CudaTallies& v) {
  return ((v.threads / 32 + 2) * v.values + 3) / 4 * 4;
}
// The bytes of a block's shared memory: the words above, then a cell for each point.
inline int64_t SharedBytesOf(const CudaTallies& v, int64_t cell_bytes) {
  return int64_t{CountWordsOf(v)} * 4 + TileOf(v) * cell_bytes;
}

// The bytes of workspace of each tile: its counts, and the sums of all counts up to it.
inline int64_t WorkspaceOf(const CudaTallies& v) {
  return int64_t{v.values} * 8;
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_TALLY_TILES_H_
