#ifndef KILN_COMPILER_SCHEDULE_TILE_WALKS_H_
#define KILN_COMPILER_SCHEDULE_TILE_WALKS_H_

// How the threads of a CudaTiles block go through their tile: what the cost model and
// the writer of the kernel share.

#include <vector>

#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/nest_facts.h"
#include "compiler/schedule/tile_accesses.h"

namespace kiln {

// One of the tile's two axes, with the groups of the accesses along it.
struct TileSide {
  uint32_t axis = 0;
  int length = 0;  // points of the tile
  Vectors vectors;
  // How the tile ends where rows begin inside of a group. Its border follows the groups:
  // each is one block's, and in some rows the tile begins up to a group earlier. Or the
  // border is straight: a group that it cuts belongs to both blocks, so a row has one
  // group more.
  bool follows = false;

  bool RowsAreShifted() const {
    return !IsMultiple(vectors.rest, vectors.width);
  }
  // Groups of a row.
  int Groups() const {
    return length / vectors.width + (RowsAreShifted() && !follows ? 1 : 0);
  }
  // Points before the tile that it has in some rows.
  int Before() const {
    return RowsAreShifted() && follows ? vectors.width - 1 : 0;
  }
  // Places in shared memory before the tile's first point, and all of them. Groups
  // that a straight border cuts are there as a whole.
  int Lead() const { return RowsAreShifted() ? vectors.width : 0; }
  int Places() const { return Lead() + length + (follows ? 0 : Lead()); }
};

// Threads side by side take neighbouring groups of `side`, in each row of `rows`.
struct TileWalk {
  const TileSide& side;
  const TileSide& rows;

  int Rows() const { return rows.length + rows.Before(); }
  int Groups() const { return side.Groups() * Rows(); }
  // Whether all threads have equally many groups, and each of them the same place
  // in all of its rows.
  bool IsEven() const {
    return kTileThreads % side.Groups() == 0 &&
           Rows() % (kTileThreads / side.Groups()) == 0;
  }
  // Groups of a thread, at most.
  int Steps() const { return (Groups() + kTileThreads - 1) / kTileThreads; }
};

struct TileWalks {
  TileAccesses through;  // shared memory
  TileSide last;         // the last axis
  TileSide other;        // `axis` of the variant
  TileWalk along_last() const { return {last, other}; }
  TileWalk along_other() const { return {other, last}; }
};
TileWalks WalksOf(const CudaTiles& variant, const LoopNest& nest,
                  const NestFacts& facts, const std::vector<Buffer>& buffers,
                  const ShapeEnv& shapes);
// The same where the vectors along both axes are known.
TileWalks WalksOf(const CudaTiles& variant, const LoopNest& nest,
                  const NestFacts& facts, const std::vector<Buffer>& buffers,
                  const Vectors& last, const Vectors& other);

// What goes through shared memory, which has room for whole groups that are cut.
TileAccesses ThroughOf(const CudaTiles& variant, const LoopNest& nest,
                       const NestFacts& facts,
                       const std::vector<Buffer>& buffers);

// Whether a tile may be peeled: only loads go through shared memory, or only stores,
// and then all of the nest. So its border can follow the groups of all stores.
bool MayPeel(const TileAccesses& through, const LoopNest& nest);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_TILE_WALKS_H_
