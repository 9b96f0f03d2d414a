#include "compiler/schedule/choose_variant.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/one_pass_form.h"
#include "compiler/schedule/reduce_ops.h"
#include "compiler/schedule/variant_candidates.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// Takes the cheapest variant of `nest` over if it is cheaper than the choice so
// far; gives whether it is.
absl::StatusOr<bool> Consider(const LoopNest& nest,
                              const std::vector<Buffer>& buffers,
                              const ShapeEnv& shapes, const Target& target,
                              int64_t max_row, bool one_pass, bool explain,
                              VariantChoice& choice) {
  ASSIGN_OR_RETURN(const NestFacts facts, FactsOf(nest, buffers, shapes));
  const NestCosts costs(nest, facts, buffers, shapes, target);
  bool taken = false;
  for (KernelVariant& variant : CandidatesFor(costs, max_row)) {
    const Price price = costs.PriceOf(variant);
    if (explain) choice.candidates.push_back({variant, price, one_pass});
    // One that does not fit is taken only where none does.
    const bool first = std::holds_alternative<Unmapped>(choice.variant);
    const bool better =
        first || (price.fits != choice.price.fits ? price.fits
                                                  : price.ns < choice.price.ns);
    if (!better) continue;
    taken = true;
    choice.variant = std::move(variant);
    choice.price = price;
  }
  return taken;
}

}  // namespace

absl::StatusOr<VariantChoice> ChooseVariant(const LoopNest& nest,
                                            const std::vector<Buffer>& buffers,
                                            const ShapeEnv& shapes,
                                            const Target& target,
                                            int64_t max_row, bool explain) {
  VariantChoice choice;
  RETURN_IF_ERROR(
      Consider(nest, buffers, shapes, target, max_row, false, explain, choice)
          .status());
  if (target.kind == TargetKind::kCuda) {
    std::optional<LoopNest> form = OnePassForm(nest);
    if (form.has_value()) {
      ASSIGN_OR_RETURN(const bool taken,
                       Consider(*form, buffers, shapes, target, max_row, true,
                                explain, choice));
      if (taken) choice.form = std::move(form);
    }
  }
  for (VariantChoice::Priced& priced : choice.candidates) {
    priced.chosen = priced.variant == choice.variant &&
                    priced.one_pass == choice.form.has_value();
  }
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

SymExpr PartialBytes(const PlannedKernel& kernel) {
  return PartialsBefore(kernel.nest,
                        static_cast<ScalarId>(kernel.nest.body.size()),
                        OuterPoints(kernel.nest), PartsOf(kernel.variant));
}

// Groups of blocks that share outer points, at most.
SymExpr BlockGroups(const PlannedKernel& kernel) {
  const SymExpr points = OuterPoints(kernel.nest);
  if (const auto* rows = std::get_if<CudaRows>(&kernel.variant))
    return CeilDiv(points, int64_t{rows->rows});
  const auto& columns = std::get<CudaColumns>(kernel.variant);
  if (columns.vector == 1) return CeilDiv(points, int64_t{columns.across});
  // The last axis counts in groups, of which the last may be partial.
  SymExpr groups = 1;
  uint32_t outer = 0;
  while (outer < kernel.nest.axes.size() && !kernel.nest.axes[outer].reduction)
    ++outer;
  for (uint32_t a = 0; a < outer; ++a) {
    const SymExpr& extent = kernel.nest.axes[a].extent;
    groups = groups * (a + 1 == outer ? CeilDiv(extent, int64_t{columns.vector})
                                      : extent);
  }
  return CeilDiv(groups, int64_t{columns.across});
}

}  // namespace

void AddWorkspaces(KernelPlan& plan) {
  std::vector<PlannedKernel*> split;
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel != nullptr && PartsOf(kernel->variant) > 1)
      split.push_back(kernel);
  }
  if (split.empty()) return;
  SymExpr counters = 0;
  for (const PlannedKernel* kernel : split) {
    const SymExpr groups = BlockGroups(*kernel);
    counters = counters.Is(0) ? groups : Max(counters, groups);
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
