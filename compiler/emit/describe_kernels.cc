#include "compiler/emit/describe_kernels.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/kernel_labels.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/metrics.h"

namespace kiln {

namespace {

std::string MappingOf(KernelVariant variant) {
  std::string out = absl::StrCat("XBLOCK=", PointsOfBlock(variant));
  for (const VariantField& field : FieldsOf(variant)) {
    absl::StrAppend(&out, ",", absl::AsciiStrToUpper(field.name), "=",
                    *field.value);
  }
  return out;
}

std::vector<SymExpr> PointsOf(const LoopNest& nest) {
  std::vector<SymExpr> extents = {1};
  if (HasReduction(nest)) extents.push_back(1);
  for (const Axis& axis : nest.axes) extents[axis.reduction] *= axis.extent;
  return extents;
}

}  // namespace

std::vector<EmittedKernel> DescribeKernels(const KernelPlan& plan,
                                           std::vector<KernelSource> sources) {
  std::vector<EmittedKernel> out;
  out.reserve(sources.size());
  absl::flat_hash_set<std::string> seen;
  size_t next = 0;
  for (const PlannedStep& step : plan.steps) {
    if (!IsLaunch(step) || next >= sources.size()) continue;
    EmittedKernel emitted;
    emitted.source = std::move(sources[next++]);
    const absl::Span<const PlannedKernel> kernels = KernelsOf(step);
    const auto* flash = std::get_if<FlashKernel>(&step);
    const KernelBytes bytes =
        flash != nullptr ? BytesOf(*flash) : BytesOf(kernels, plan.buffers);
    emitted.facts.bytes_read = bytes.read;
    emitted.facts.bytes_written = bytes.written;
    emitted.facts.mapping =
        MappingOf(flash != nullptr ? flash->variant : kernels[0].variant);
    if (std::holds_alternative<PlannedKernel>(step) &&
        !ComesFromLists(kernels[0].nest)) {
      emitted.facts.extents = PointsOf(kernels[0].nest);
    }
    if (seen.insert(emitted.source.symbol).second) {
      const auto* all = std::get_if<CombinedKernel>(&step);
      emitted.facts.text = flash != nullptr ? ToText(*flash, plan.buffers)
                           : all != nullptr ? ToText(*all, plan.buffers)
                                            : ToText(kernels[0], plan.buffers);
    }
    out.push_back(std::move(emitted));
  }
  return out;
}

}  // namespace kiln
