#ifndef KILN_COMPILER_SCHEDULE_TALLY_TILES_H_
#define KILN_COMPILER_SCHEDULE_TALLY_TILES_H_

// What a CudaTallies kernel needs beside registers.

#include <algorithm>

#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// Points that a block takes.
inline int TileOf(const CudaTallies& v) { return v.threads * v.run; }
inline SymExpr TilesOf(const CudaTallies& v, const SymExpr& row) {
  return CeilDiv(row, int64_t{TileOf(v)});
}

// Bytes of what threads exchange for a point: an address or a value.
inline int64_t WidestCell(const LoopNest& nest,
                          const std::vector<Buffer>& buffers,
                          const NestFacts& facts) {
  int64_t bytes = facts.index32 ? 4 : 8;
  for (const Store& store : nest.stores)
    bytes = std::max(bytes, SizeInBytes(buffers[store.buffer].dtype));
  return bytes;
}

// 32-bit words of shared memory for the counts of a block's warps and two numbers
// for each value; a multiple of 16 bytes.
inline int CountWordsOf(const CudaTallies& v) {
  return ((v.threads / 32 + 2) * v.values + 3) / 4 * 4;
}
// Shared memory of a block: behind those a cell for each point.
inline int64_t SharedBytesOf(const CudaTallies& v, int64_t cell_bytes) {
  return int64_t{CountWordsOf(v)} * 4 + TileOf(v) * cell_bytes;
}

// Workspace of each tile: its counts, and their sums with those before it.
inline int64_t WorkspaceOf(const CudaTallies& v) {
  return int64_t{v.values} * 8;
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_TALLY_TILES_H_
