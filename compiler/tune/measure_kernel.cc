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
#include "proto/base/status.h"

namespace kiln {
namespace {

// Of a buffer that a kernel takes, at the hints.
int64_t BytesOf(const KernelPlan& plan, BufferId id) {
  const Buffer& buffer = plan.buffers[id];
  const SymExpr elements = buffer.offset + Product(buffer.sizes);
  return std::max<int64_t>(
      1, plan.shapes.Hint(elements) * SizeInBytes(buffer.dtype));
}

// A launch as the stopwatch takes it, but for the object code.
TimedKernel LaunchOf(const KernelSource& source, const KernelPlan& plan,
                     const Target& target) {
  TimedKernel timed;
  timed.kind = target.kind;
  timed.target = target.name;
  timed.symbol = source.symbol;
  for (const KernelParam& param : source.params) {
    const bool slot = param.kind == KernelParam::Kind::kSeedSlot;
    if (slot || param.kind == KernelParam::Kind::kBuffer) {
      timed.order.push_back(static_cast<int32_t>(timed.buffer_bytes.size()));
      timed.buffer_bytes.push_back(slot ? static_cast<int64_t>(sizeof(uint64_t))
                                        : BytesOf(plan, param.buffer));
      continue;
    }
    const bool seed = param.kind == KernelParam::Kind::kSeed;
    timed.order.push_back(~static_cast<int32_t>(timed.scalars.size()));
    timed.scalars.push_back(seed ? 0 : plan.shapes.Hint(param.scalar));
  }
  for (size_t d = 0; d < source.grid.size(); ++d)
    timed.grid[d] = plan.shapes.Hint(source.grid[d]);
  if (source.blocks_per_multiprocessor > 0) {
    timed.grid[0] = std::min<int64_t>(
        timed.grid[0],
        int64_t{source.blocks_per_multiprocessor} * target.multiprocessors);
  }
  std::copy(std::begin(source.block), std::end(source.block), timed.block);
  timed.shared_bytes = source.shared_bytes;
  return timed;
}

absl::StatusOr<double> SecondsOf(const KernelPlan& plan, const Target& target,
                                 int repeats, Toolchain& toolchain,
                                 Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(const KernelSource source,
                   WriteKernel(std::get<PlannedKernel>(plan.steps[0]),
                               plan.buffers, plan.shapes, target));
  const std::vector<UnitSource> units = GroupIntoUnits({source}, target);
  ASSIGN_OR_RETURN(BuiltObject built,
                   toolchain.Build(units[0].source, UnitFlags(target)));
  TimedKernel timed = LaunchOf(source, plan, target);
  timed.image = std::move(built.image);
  return stopwatch.MedianSeconds(timed, repeats);
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
