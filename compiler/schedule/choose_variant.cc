#include "compiler/schedule/choose_variant.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/reduce_ops.h"
#include "compiler/schedule/tally_tiles.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<VariantChoice> ChooseVariant(const LoopNest& nest,
                                            const std::vector<Buffer>& buffers,
                                            const ShapeEnv& shapes,
                                            const Target& target,
                                            const ChoiceOptions& options) {
  ASSIGN_OR_RETURN(
      const ConfigSpace space,
      ConfigSpace::Of(nest, buffers, shapes, target, options.limits));
  VariantChoice choice;
  choice.config =
      options.tuning == nullptr ? space.cheapest() : space.preferred();
  if (options.tuning != nullptr) {
    choice.key = space.Key();
    const auto found = options.tuning->find(choice.key);
    if (!choice.key.empty() && found != options.tuning->end()) {
      choice.decision = found->second;
      absl::StatusOr<KernelConfig> tuned = space.Find(choice.decision);
      if (tuned.ok()) {
        choice.config = *std::move(tuned);
      } else {
        choice.ignored = std::string(tuned.status().message());
      }
    }
  }
  if (!options.explain) return choice;
  const std::string chosen = ToText(choice.config);
  for (const KernelConfig& config : space.configs())
    choice.configs.push_back({config, ToText(config) == chosen});
  return choice;
}

namespace {

BufferId AddBuffer(KernelPlan& plan, std::string name, BufferKind kind,
                   DType dtype, SymExpr elements) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.sizes = {std::move(elements)};
  buffer.strides = {1};
  plan.buffers.push_back(std::move(buffer));
  plan.placements.emplace_back();
  return static_cast<BufferId>(plan.buffers.size() - 1);
}

SymExpr OuterPoints(const LoopNest& nest) {
  SymExpr points = 1;
  for (const Axis& axis : nest.axes)
    if (!axis.reduction) points = points * axis.extent;
  return points;
}

// The number of tiles of all rows.
SymExpr Tiles(const PlannedKernel& kernel, const CudaTallies& tallies) {
  return OuterPoints(kernel.nest) *
         TilesOf(tallies, kernel.nest.axes.back().extent);
}

SymExpr PartialBytes(const PlannedKernel& kernel) {
  if (const auto* tallies = std::get_if<CudaTallies>(&kernel.variant))
    return Tiles(kernel, *tallies) * WorkspaceOf(*tallies);
  return PartialsBefore(kernel.nest,
                        static_cast<ScalarId>(kernel.nest.body.size()),
                        OuterPoints(kernel.nest), PartsOf(kernel.variant));
}

// The most counters that a kernel needs: one for each group of blocks that share outer
// points. A scan needs a ticket counter, one for blocks that are done, and a flag for
// each block.
SymExpr Counters(const PlannedKernel& kernel) {
  const SymExpr points = OuterPoints(kernel.nest);
  if (const auto* tallies = std::get_if<CudaTallies>(&kernel.variant))
    return Tiles(kernel, *tallies) + 2;
  if (const auto* scans = std::get_if<CudaScans>(&kernel.variant))
    return points * scans->parts + 2;
  if (const auto* scans = std::get_if<CudaColumnScans>(&kernel.variant))
    return CeilDiv(points, int64_t{scans->across}) * scans->parts + 2;
  if (const auto* rows = std::get_if<CudaRows>(&kernel.variant))
    return CeilDiv(points, int64_t{rows->rows});
  const auto& columns = std::get<CudaColumns>(kernel.variant);
  if (columns.vector == 1) return CeilDiv(points, int64_t{columns.across});
  // The last axis is counted in groups; the last group may be partial. With `peel`, the
  // groups of one block are all of the same row.
  const int64_t together = columns.peel != 0 ? columns.across : 1;
  SymExpr groups = 1;
  uint32_t outer = 0;
  while (outer < kernel.nest.axes.size() && !kernel.nest.axes[outer].reduction)
    ++outer;
  for (uint32_t a = 0; a < outer; ++a) {
    const SymExpr& extent = kernel.nest.axes[a].extent;
    groups =
        groups *
        (a + 1 == outer ? CeilDiv(extent, columns.vector * together) : extent);
  }
  return CeilDiv(groups, columns.across / together);
}

// The two kernels of a gradient, which are neighbouring steps, share their sums. A kernel
// that is alone in a plan, to be timed, has its own.
void AddSums(KernelPlan& plan) {
  BufferId sums = kNoBuffer;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    auto* flash = std::get_if<FlashKernel>(&plan.steps[s]);
    if (flash == nullptr || flash->part == FlashKernel::Part::kForward)
      continue;
    if (flash->WritesSums() || sums == kNoBuffer) {
      const Attention& a = flash->attention;
      sums = AddBuffer(plan, absl::StrCat("sums", plan.buffers.size()),
                       BufferKind::kTemporary, DType::kFloat32,
                       a.extents[Attention::kB] * a.extents[Attention::kH] *
                           PaddedQueries(a) * 2);
    }
    flash->sums = sums;
  }
}

}  // namespace

void AddWorkspaces(KernelPlan& plan) {
  AddSums(plan);
  std::vector<PlannedKernel*> split;
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel != nullptr && HasWorkspace(kernel->variant))
      split.push_back(kernel);
  }
  if (split.empty()) return;
  SymExpr counters = 0;
  for (const PlannedKernel* kernel : split) {
    const SymExpr due = Counters(*kernel);
    counters = counters.Is(0) ? due : Max(counters, due);
  }
  const BufferId counter_buffer = AddBuffer(
      plan, "counters", BufferKind::kCounters, DType::kInt32, counters);
  for (PlannedKernel* kernel : split) {
    kernel->workspace.counters = counter_buffer;
    kernel->workspace.partials =
        AddBuffer(plan, absl::StrCat("partials", plan.buffers.size()),
                  BufferKind::kTemporary, DType::kUInt8, PartialBytes(*kernel));
  }
}

}  // namespace kiln
