#include "compiler/tune/apply_tuning.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/tune/row_choice.h"
#include "proto/base/status.h"

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

// Whether a decision is for it. Rows that several blocks share are not tuned.
bool MapsRows(const KernelVariant& variant) {
  return std::holds_alternative<CpuRows>(variant) ||
         (std::holds_alternative<CudaRows>(variant) && PartsOf(variant) == 1);
}

absl::Status CheckDecision(const TunedChoice& decision, const Target& target) {
  if (!IsRowKey(decision.key, target)) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("tuning decision: found \"", absl::CEscape(decision.key),
                     "\", a row reduction on ", target.name, " is due"));
  }
  const auto choice = RowChoiceFromText(decision.choice);
  const std::vector<RowChoice> due = RowChoices(target);
  if (choice.has_value() &&
      std::find(due.begin(), due.end(), *choice) != due.end()) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("tuning decision ", decision.key, ": found \"",
                   absl::CEscape(decision.choice), "\", a choice as \"",
                   ToText(due.front()), "\" is due"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ApplyTuning(
    KernelPlan& plan, absl::Span<const TunedChoice> decisions,
    const Target& target) {
  for (const TunedChoice& decision : decisions)
    RETURN_IF_ERROR(CheckDecision(decision, target));
  std::map<std::string, std::string> looked_up;
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr || !MapsRows(kernel->variant)) continue;
    const std::string key = KeyOf(*kernel, plan.shapes, target);
    if (key.empty()) continue;
    std::string& found = looked_up[key];
    for (const TunedChoice& decision : decisions) {
      if (decision.key != key) continue;
      found = decision.choice;
      Apply(*RowChoiceFromText(decision.choice), kernel->variant);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [key, choice] : looked_up)
    lines.push_back(absl::StrCat(key, " ", choice));
  return lines;
}

}  // namespace kiln
