#include "compiler/schedule/tile_accesses.h"

#include "compiler/loop/index_expr.h"

namespace kiln {

namespace {

constexpr int64_t kMaxTileBytes = 40 << 10;

}  // namespace

TileAccesses AccessesAcross(const LoopNest& nest, const NestFacts& facts,
                            const std::vector<Buffer>& buffers, uint32_t across,
                            int edge, int depth) {
  TileAccesses found;
  if (across + 1 >= facts.num_outer) return found;
  const uint32_t last = facts.num_outer - 1;
  int64_t used = 0;
  const auto take = [&](const SymExpr& offset, BufferId buffer) {
    if (MotionOf(offset, across, facts) != Motion::kContiguous ||
        MotionOf(offset, last, facts) != Motion::kStrided ||
        HasIndirect(offset)) {
      return false;
    }
    const int64_t bytes =
        int64_t{edge} * (depth + 4) * SizeInBytes(buffers[buffer].dtype);
    if (used + bytes > kMaxTileBytes) return false;
    used += bytes;
    return true;
  };
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    if (node.op == ScalarOp::kLoad && node.args.empty() &&
        take(facts.load_offset[id], node.buffer)) {
      found.loads.push_back(id);
    }
  }
  for (uint32_t s = 0; s < nest.stores.size(); ++s) {
    const Store& store = nest.stores[s];
    if (store.mode == StoreMode::kSet && store.mask == Store::kNoMask &&
        take(facts.store_offset[s], store.buffer)) {
      found.stores.push_back(s);
    }
  }
  return found;
}

}  // namespace kiln
