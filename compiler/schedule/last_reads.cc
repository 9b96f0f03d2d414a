#include "compiler/schedule/last_reads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/hint_bytes.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

namespace {

constexpr size_t kNever = ~size_t{0};

// Kernels that read more gain little from what stays in L2, and such loads are slower.
// Measured on an H100: 14 % faster at 64 MiB, equal at 256, 11 % slower at 512
// (bench/records/gpu_kernels.md).
constexpr int64_t kMostBytes = 200'000'000;

// For each buffer the last step that touches it; kNever if it is returned.
std::vector<size_t> LastSteps(const KernelPlan& plan) {
  std::vector<size_t> last(plan.buffers.size(), kNever);
  for (size_t s = 0; s < plan.steps.size(); ++s)
    VisitStepBuffers(plan.steps[s], [&](BufferId b, bool) { last[b] = s; });
  for (const ProgramOutput& output : plan.outputs)
    if (const auto* view = std::get_if<View>(&output.what))
      last[view->buffer] = kNever;
  return last;
}

bool OnlyReduces(const LoopNest& nest, const NestFacts& facts) {
  if (facts.reduced == 0 || facts.has_scan) return false;
  for (size_t s = 0; s < nest.stores.size(); ++s)
    if (facts.StoreIsReduced(s)) return false;
  return true;
}

int Accesses(const LoopNest& nest, BufferId buffer) {
  int count = 0;
  VisitStepBuffers(nest, [&](BufferId b, bool) { count += b == buffer; });
  return count;
}

// Loads of buffers that step `s` touches last, and its nest nowhere else.
std::vector<ScalarId> LastAccesses(const LoopNest& nest,
                                   const std::vector<size_t>& last, size_t s) {
  std::vector<ScalarId> found;
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    if (node.op == ScalarOp::kLoad && last[node.buffer] == s &&
        Accesses(nest, node.buffer) == 1) {
      found.push_back(id);
    }
  }
  return found;
}

bool TakesEachElementOnce(const LoopNest& nest, const NestFacts& facts,
                          const KernelPasses& passes, ScalarId id) {
  if (!IsPlainLoad(nest, facts, id)) return false;
  for (uint32_t a = 0; a < facts.num_axes; ++a) {
    if (!facts.extents[a].Is(1) && (facts.axes[id] & AxisBit(a)) == 0)
      return false;
  }
  return std::count_if(passes.passes.begin(), passes.passes.end(),
                       [id](const KernelPass& pass) {
                         return std::count(pass.inside.begin(),
                                           pass.inside.end(), id) != 0;
                       }) == 1;
}

bool Reduces(const LoopNest& nest) {
  return std::any_of(nest.axes.begin(), nest.axes.end(),
                     [](const Axis& axis) { return axis.reduction; });
}

}  // namespace

int MarkLastReads(KernelPlan& plan) {
  const std::vector<size_t> last = LastSteps(plan);
  int count = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (PlannedKernel& kernel : KernelsOf(plan.steps[s])) {
      LoopNest& nest = kernel.nest;
      if (!Reduces(nest)) continue;
      const std::vector<ScalarId> loads = LastAccesses(nest, last, s);
      if (loads.empty()) continue;
      const auto facts = FactsOf(nest, plan.buffers, plan.shapes);
      if (!facts.ok() || !OnlyReduces(nest, *facts)) continue;
      const KernelPasses passes = PlanPasses(nest, *facts, {});
      std::vector<ScalarId> once;
      int64_t bytes = 0;
      for (const ScalarId id : loads) {
        if (!TakesEachElementOnce(nest, *facts, passes, id)) continue;
        once.push_back(id);
        bytes += HintBytes(plan.buffers[nest.body[id].buffer], plan.shapes);
      }
      if (bytes > kMostBytes) continue;
      for (const ScalarId id : once) nest.body[id].last_read = true;
      count += static_cast<int>(once.size());
    }
  }
  return count;
}

}  // namespace kiln
