#include "compiler/schedule/held_rows.h"

#include <algorithm>

#include "compiler/config/target.h"

namespace kiln {
namespace {

int64_t RoundUp(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

// Whether the load differs between the neighbours of a group.
bool IsLanes(ScalarId load, const NestFacts& facts, const Vectors& vectors) {
  return vectors.width > 1 && (facts.axes[load] & AxisBit(vectors.axis)) != 0 &&
         MotionOf(facts.load_offset[load], vectors.axis, facts) !=
             Motion::kStill;
}

}  // namespace

KernelPasses RowPasses(const CudaRows& variant, const LoopNest& nest,
                       const NestFacts& facts) {
  return PlanPasses(nest, facts,
                    variant.held == 0
                        ? std::vector<bool>()
                        : ValuesToHold(nest, facts, variant.hold_costly != 0));
}

std::vector<ScalarId> HeldLoads(const KernelPasses& passes,
                                const LoopNest& nest) {
  std::vector<ScalarId> loads;
  for (const KernelPass& pass : passes.passes) {
    for (ScalarId id : pass.keeps)
      if (nest.body[id].op == ScalarOp::kLoad) loads.push_back(id);
  }
  return loads;
}

StagedRows StagedRowsOf(const CudaRows& variant, const LoopNest& nest,
                        const NestFacts& facts, const Vectors& vectors,
                        const KernelPasses& passes) {
  StagedRows staged;
  if (variant.stages == 0) return staged;
  staged.first_byte.resize(nest.body.size(), 0);
  const int64_t threads = int64_t{variant.lanes} * variant.rows;
  const auto take = [&](ScalarId id, int64_t slots) {
    const int64_t width = IsLanes(id, facts, vectors) ? vectors.width : 1;
    const int64_t slot =
        RoundUp(width * SizeInBytes(nest.body[id].dtype), kLeastCopiedBytes);
    staged.first_byte[id] = staged.bytes;
    staged.bytes +=
        RoundUp(slots * variant.stages * threads * slot, kMaxAccessBytes);
  };
  for (ScalarId id : HeldLoads(passes, nest)) {
    if (variant.stretch > 0 && IsOfAllRows(id, facts)) continue;
    staged.groups.push_back(id);
    take(id, variant.held);
  }
  if (variant.once == 0) return staged;
  for (const KernelPass& pass : passes.passes) {
    for (ScalarId id : pass.before) {
      if (!IsPlainLoad(nest, facts, id) ||
          SizeInBytes(nest.body[id].dtype) < kLeastCopiedBytes)
        continue;
      staged.once.push_back(id);
      take(id, 1);
    }
  }
  return staged;
}

int64_t SumBytesOfGroup(const CudaRows& variant, const LoopNest& nest,
                        const std::vector<Buffer>& buffers) {
  int64_t element = 0;
  for (const Store& store : nest.stores) {
    if (store.mode == StoreMode::kSum)
      element = std::max(element, SizeInBytes(buffers[store.buffer].dtype));
  }
  return element * variant.vector * variant.lanes * variant.rows;
}

}  // namespace kiln
