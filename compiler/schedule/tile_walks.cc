#include "compiler/schedule/tile_walks.h"

namespace kiln {

TileAccesses ThroughOf(const CudaTiles& v, const LoopNest& nest,
                       const NestFacts& facts,
                       const std::vector<Buffer>& buffers) {
  return AccessesAcross(nest, facts, buffers, static_cast<uint32_t>(v.axis),
                        v.edge + 2 * v.vector * v.peel,
                        v.depth + 2 * v.across * v.peel);
}

TileWalks WalksOf(const CudaTiles& v, const LoopNest& nest,
                  const NestFacts& facts, const std::vector<Buffer>& buffers,
                  const ShapeEnv& shapes) {
  const auto vectors = [&](uint32_t axis, int width) {
    return MakeVectors(nest, facts, buffers, shapes, axis, width, v.peel != 0);
  };
  return WalksOf(v, nest, facts, buffers,
                 vectors(facts.num_outer - 1, v.vector),
                 vectors(static_cast<uint32_t>(v.axis), v.across));
}

TileWalks WalksOf(const CudaTiles& v, const LoopNest& nest,
                  const NestFacts& facts, const std::vector<Buffer>& buffers,
                  const Vectors& last, const Vectors& other) {
  TileWalks walks;
  walks.through = ThroughOf(v, nest, facts, buffers);
  const bool stores = !walks.through.stores.empty();
  walks.last = {last.axis, v.edge, last, !stores};
  walks.other = {other.axis, v.depth, other, stores};
  return walks;
}

bool MayPeel(const TileAccesses& through, const LoopNest& nest) {
  if (through.stores.empty()) return !through.loads.empty();
  return through.loads.empty() && through.stores.size() == nest.stores.size();
}

}  // namespace kiln
