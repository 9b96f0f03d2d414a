#include "compiler/tune/measure_flash.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/codegen/cuda_flash.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/schedule/flash_configs.h"
#include "compiler/schedule/kernel_labels.h"
#include "compiler/tune/time_kernel.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// A plan of this kernel alone, with the workspaces that it needs.
KernelPlan PlanOfOne(const KernelPlan& plan, const FlashKernel& kernel) {
  KernelPlan one;
  one.name = plan.name;
  one.shapes = plan.shapes;
  one.buffers = plan.buffers;
  one.placements = plan.placements;
  one.client_words = plan.client_words;
  one.steps.emplace_back(kernel);
  LabelKernels(one);
  AddWorkspaces(one);
  return one;
}

}  // namespace

const FlashKernel* FlashOfKey(const KernelPlan& plan, const Target& target,
                              absl::string_view key) {
  for (const PlannedStep& step : plan.steps) {
    const auto* kernel = std::get_if<FlashKernel>(&step);
    if (kernel == nullptr || key.empty()) continue;
    if (TuningKey(*kernel, plan.shapes, target) == key) return kernel;
  }
  return nullptr;
}

absl::StatusOr<Measurement> MeasureFlash(
    const FlashKernel& kernel, const KernelPlan& plan, const Target& target,
    absl::string_view key, const MeasureOptions& options, Toolchain& toolchain,
    Stopwatch& stopwatch) {
  std::vector<CudaFlash> configs;
  if (options.choices.empty()) configs = FlashConfigs(kernel, target);
  for (const std::string& choice : options.choices) {
    ASSIGN_OR_RETURN(const CudaFlash found, FindFlash(kernel, target, choice));
    configs.push_back(found);
  }
  std::vector<std::string> choices;
  for (const CudaFlash& config : configs)
    choices.push_back(ToText(KernelVariant(config)));
  KernelPlan one = PlanOfOne(plan, kernel);
  auto& alone = std::get<FlashKernel>(one.steps[0]);
  return MeasureChoices(key, choices, [&](size_t i) -> absl::StatusOr<double> {
    alone.variant = configs[i];
    ASSIGN_OR_RETURN(const KernelSource source,
                     WriteFlashKernel(alone, one.buffers, one.shapes, target));
    return TimeKernel(source, one, target,
                      options.repeats > 0 ? options.repeats : kUsualRepeats,
                      toolchain, stopwatch);
  });
}

}  // namespace kiln
