#include "compiler/tune/apply_tuning.h"

#include "compiler/tune/row_choice.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

// What a row kernel is filed under: its rows, their length, and the type of
// the first thing it loads.
std::string KeyOf(const PlannedKernel& kernel, const ShapeEnv& shapes,
                  const Target& target) {
  int64_t rows = 1, columns = 1;
  for (const Axis& axis : kernel.nest.axes)
    (axis.reduction ? columns : rows) *= shapes.Hint(axis.extent);
  for (const ScalarNode& node : kernel.nest.body)
    if (node.op == ScalarOp::kLoad)
      return RowKey(node.dtype, rows, columns, target);
  return "";
}

}  // namespace

std::vector<std::string> ApplyTuning(KernelPlan& plan,
                                     absl::Span<const TunedChoice> decisions,
                                     const Target& target) {
  if (decisions.empty()) return {};
  std::vector<bool> used(decisions.size(), false);
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr || kernel->tiling.mapping != Mapping::kRow) continue;
    const std::string key = KeyOf(*kernel, plan.shapes, target);
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (decisions[d].key != key) continue;
      const auto choice = RowChoiceFromText(decisions[d].choice);
      if (!choice.has_value()) continue;
      Apply(*choice, kernel->tiling);
      used[d] = true;
    }
  }
  std::vector<std::string> digests;
  for (size_t d = 0; d < decisions.size(); ++d)
    if (used[d])
      digests.push_back(Sha256()
                            .AddField(decisions[d].key)
                            .AddField(decisions[d].choice)
                            .Finish()
                            .Hex());
  return digests;
}

}  // namespace kiln
