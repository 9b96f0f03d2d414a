// Prices of CUDA's transposing tiles: cost_model.h.

#include <algorithm>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"
#include "compiler/schedule/tile_walks.h"

namespace kiln {

namespace {

// Of rows that begin inside of 16 bytes: the sectors that a tile's run of a row moves
// beyond its own bytes, since its ends are parts of sectors. A sector that two blocks
// write costs more, unless they have whole groups of it.
constexpr double kCutLoads = 0.5;
constexpr double kCutStores = 3;
constexpr double kCutPeeledStores = 1;
// Time that a thread of a peeled tile takes for an instruction, once the loads are there.
constexpr double kPeeledNs = 1.1;

bool GoesThrough(const TileAccesses& through, const SymExpr* offset,
                 const NestFacts& facts) {
  const auto is = [&](const SymExpr& other) { return offset == &other; };
  return std::any_of(through.loads.begin(), through.loads.end(),
                     [&](ScalarId id) { return is(facts.load_offset[id]); }) ||
         std::any_of(through.stores.begin(), through.stores.end(),
                     [&](uint32_t s) { return is(facts.store_offset[s]); });
}

}  // namespace

double NestCosts::BlocksOfTiles(const TileWalks& walks) const {
  double blocks = static_cast<double>(outer_);
  for (const TileSide* side : {&walks.last, &walks.other}) {
    const auto extent = static_cast<double>(extents_[side->axis]);
    blocks *= CeilDivide(extent + side->Before(), side->length) / extent;
  }
  return blocks;
}

NestCosts::TileTraffic NestCosts::TrafficOf(const CudaTiles& v,
                                            const TileWalks& walks) const {
  TileTraffic traffic;
  for (const Access& access : accesses_) {
    const bool through = GoesThrough(walks.through, access.offset, facts_);
    const TileWalk walk = through ? walks.along_other() : walks.along_last();
    const Vectors& vectors = walk.side.vectors;
    const bool rows_are_cut =
        MotionAlong(access, vectors.axis) == Motion::kContiguous &&
        !RestIsMultiple(*access.offset, vectors.axis,
                        std::max<int64_t>(1, 16 / access.bytes));
    const double cut = !access.store ? kCutLoads
                       : v.peel != 0 ? kCutPeeledStores
                                     : kCutStores;
    const double run = walk.side.length * static_cast<double>(access.bytes);
    traffic.bytes += BytesAlong(access, vectors.axis, walk.side.length) *
                     (rows_are_cut ? 1 + cut * kSector / run : 1);
    // Both blocks load a group that a straight border cuts, and rows at a border
    // that follows groups.
    const double again = access.store ? 1
                                      : double(walk.Groups()) * vectors.width /
                                            (double(v.edge) * v.depth);
    traffic.sectors += Sectors(access, vectors) * again;
    if (through) traffic.cells += 2 * access.points;
    if (!access.store)
      traffic.registers += static_cast<int>((access.bytes * vectors.width + 3) /
                                            4 * walk.Steps());
  }
  return traffic;
}

Price NestCosts::PriceCuda(const CudaTiles& v) const {
  const auto across = static_cast<uint32_t>(v.axis);
  const PricedVectors& vectors =
      VectorsFor(facts_.num_outer - 1, v.vector, v.peel != 0);
  const TileWalks walks = WalksOf(v, nest_, facts_, buffers_, vectors,
                                  VectorsFor(across, v.across, v.peel != 0));
  const TileTraffic traffic = TrafficOf(v, walks);
  const double blocks = BlocksOfTiles(walks);
  // Places in all steps of a walk, for each point: tiles at the ends of the axes are
  // partly empty, and in a walk's last step some threads have no group.
  const auto places = [&](const TileWalk& walk) {
    return blocks * walk.Steps() * kTileThreads * walk.side.vectors.width /
           static_cast<double>(outer_);
  };
  const double along = places(walks.along_last());
  const double other = places(walks.along_other());
  Price price;
  price.bytes = traffic.bytes;
  price.registers =
      kBaseRegisters + traffic.registers + 2 * std::max(v.vector, v.across);
  price.fits = price.registers <= 128;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns =
      std::max(
          price.bytes / target_.memory_bytes_per_ns,
          (traffic.sectors / kSectorsPerCycle + traffic.cells / 32) / chip) *
      1.05;
  price.issue_ns = (Issue(vectors, false, false) * along +
                    1.5 * traffic.cells * (along + other)) /
                   (chip * kLanesPerCycle);
  const double slots =
      target_.multiprocessors * Resident(kTileThreads, price.registers);
  // Of a thread.
  const double instructions =
      price.issue_ns * chip * kLanesPerCycle / (blocks * kTileThreads);
  price.latency_ns =
      std::max(1.0, blocks / slots) *
      (kLoadNs + 2 * kJoinBlockNs + v.peel * kPeeledNs * instructions);
  return Finish(price,
                Resident(kTileThreads, price.registers) * kTileThreads / 32);
}

}  // namespace kiln
