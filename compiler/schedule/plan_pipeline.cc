#include "compiler/schedule/plan_pipeline.h"

#include <utility>

#include "compiler/loop/inline_producers.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/choose_tiling.h"
#include "compiler/schedule/combine_nests.h"
#include "compiler/schedule/fuse_loops.h"
#include "compiler/schedule/kernel_labels.h"
#include "compiler/schedule/loop_order.h"
#include "compiler/schedule/plan_buffers.h"
#include "compiler/schedule/reduction_plan.h"

namespace kiln {

namespace {

// One dimension, as long as the memory that the strides reach.
Buffer Flat(Buffer buffer) {
  SymExpr span = 1;
  bool empty = false;
  for (size_t d = 0; d < buffer.sizes.size(); ++d) {
    empty |= buffer.sizes[d].Is(0);
    span += (buffer.sizes[d] - 1) * buffer.strides[d];
  }
  buffer.sizes = {empty ? SymExpr(0) : span};
  buffer.strides = {1};
  return buffer;
}

}  // namespace

KernelPlan FlattenAddresses(LoopProgram program) {
  KernelPlan plan;
  plan.name = std::move(program.name);
  plan.outputs = std::move(program.outputs);
  plan.mutated_inputs = std::move(program.mutated_inputs);
  for (Buffer& buffer : program.buffers) plan.buffers.push_back(Flat(buffer));
  plan.placements.resize(plan.buffers.size());
  for (LoopStep& step : program.steps) {
    if (auto* nest = std::get_if<LoopNest>(&step)) {
      FlattenAddresses(*nest, program.buffers);
      plan.steps.push_back(
          PlannedKernel{std::move(*nest), {.mapping = Mapping::kSerial}, ""});
    } else if (auto* call = std::get_if<ExternCall>(&step)) {
      plan.steps.push_back(std::move(*call));
    } else {
      plan.steps.push_back(std::get<Fill>(step));
    }
  }
  plan.shapes = std::move(program.shapes);
  LabelKernels(plan);
  return plan;
}

void OrderLoops(KernelPlan& plan) {
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    // Merging after ordering: what lies in a row becomes one axis.
    kernel->nest = MergeAxes(OrderAxes(kernel->nest, plan.buffers, plan.shapes),
                             plan.shapes);
  }
}

void ChooseTilings(KernelPlan& plan, const Target& target,
                   const ScheduleOptions& options) {
  const int64_t max_row =
      options.persistent_max_row > 0 ? options.persistent_max_row : 4096;
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    kernel->tiling =
        ChooseTiling(kernel->nest, plan.buffers, plan.shapes, target, max_row);
  }
  LabelKernels(plan);
}

void CombineKernels(KernelPlan& plan) {
  if (CombineNests(plan, CombineLimits()) > 0) LabelKernels(plan);
}

absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program,
                                       const Target& target,
                                       const ScheduleOptions& options) {
  DropDeadStores(program);
  if (!options.no_fusion) {
    InlineProducers(program, target, InlineLimits());
    FuseLoops(program, target, {.limits = {.nests = options.max_fusion_size}});
    // After fusion: sums that share a kernel share both stages.
    SplitLongReductions(program, target, SplitLimits());
  }
  KernelPlan plan = FlattenAddresses(std::move(program));
  OrderLoops(plan);
  ChooseTilings(plan, target, options);
  if (!options.no_fusion) CombineKernels(plan);
  PlanBuffers(plan, MostInArena(target));
  return plan;
}

}  // namespace kiln
