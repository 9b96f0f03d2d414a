#include "compiler/tune/measure_kernel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/schedule/kernel_labels.h"
#include "compiler/schedule/one_pass_form.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/tune/time_kernel.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::StatusOr<double> SecondsOf(const KernelPlan& plan, const Target& target,
                                 int repeats, Toolchain& toolchain,
                                 Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(const KernelSource source,
                   WriteKernel(std::get<PlannedKernel>(plan.steps[0]),
                               plan.buffers, plan.shapes, target));
  return TimeKernel(source, plan, target, repeats, toolchain, stopwatch);
}

absl::StatusOr<std::vector<KernelConfig>> ConfigsFor(
    const ConfigSpace& space, const std::vector<std::string>& choices) {
  if (choices.empty()) return space.WorthMeasuring();
  std::vector<KernelConfig> configs;
  for (const std::string& choice : choices) {
    ASSIGN_OR_RETURN(KernelConfig config, space.Find(choice));
    configs.push_back(std::move(config));
  }
  return configs;
}

}  // namespace

absl::StatusOr<const PlannedKernel*> KernelOfKey(const KernelPlan& plan,
                                                 const PassEnv& env,
                                                 absl::string_view key) {
  for (const PlannedStep& step : plan.steps) {
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr || key.empty()) continue;
    ASSIGN_OR_RETURN(const ConfigSpace space, ConfigsOf(*kernel, plan, env));
    if (space.Key() == key) return kernel;
  }
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("measure: no kernel of the graph has the key \"",
                   absl::CEscape(key), "\""));
}

KernelPlan PlanOfOne(const KernelPlan& plan, const PlannedKernel& kernel,
                     const KernelConfig& config) {
  KernelPlan one;
  one.name = plan.name;
  one.shapes = plan.shapes;
  one.buffers = plan.buffers;
  one.placements = plan.placements;
  one.client_words = plan.client_words;
  PlannedKernel alone = kernel;
  alone.variant = config.variant;
  if (config.one_pass) alone.nest = OnePassForm(kernel.nest).value();
  one.steps.emplace_back(std::move(alone));
  LabelKernels(one);
  AddWorkspaces(one);
  return one;
}

absl::StatusOr<Measurement> MeasureKernel(
    const KernelPlan& plan, const PassEnv& env, absl::string_view key,
    const MeasureOptions& options, Toolchain& toolchain, Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(const PlannedKernel* kernel, KernelOfKey(plan, env, key));
  ASSIGN_OR_RETURN(const ConfigSpace space, ConfigsOf(*kernel, plan, env));
  ASSIGN_OR_RETURN(const std::vector<KernelConfig> configs,
                   ConfigsFor(space, options.choices));
  std::vector<std::string> choices;
  for (const KernelConfig& config : configs) choices.push_back(ToText(config));
  return MeasureChoices(key, choices, [&](size_t i) {
    return SecondsOf(PlanOfOne(plan, *kernel, configs[i]), env.target,
                     options.repeats > 0 ? options.repeats : kUsualRepeats,
                     toolchain, stopwatch);
  });
}

}  // namespace kiln
