#include "compiler/schedule/kernel_labels.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

// Source: Inductor's kernel_name_max_ops.
constexpr size_t kMostOriginsInName = 10;

absl::string_view KindOf(const PlannedStep& step) {
  const auto* kernel = std::get_if<PlannedKernel>(&step);
  if (kernel == nullptr) return "for";
  if (!HasReduction(kernel->nest)) return "poi";
  const auto* rows = std::get_if<CudaRows>(&kernel->variant);
  return rows != nullptr && rows->held > 0 ? "per" : "red";
}

std::string LabelOf(const PlannedStep& step, size_t number) {
  std::vector<absl::string_view> words = {"kiln", KindOf(step), "fused"};
  const size_t most = words.size() + kMostOriginsInName;
  const bool alone = KernelsOf(step).size() == 1;
  for (const PlannedKernel& kernel : KernelsOf(step)) {
    for (const std::string& origin : kernel.nest.origins) {
      if (words.size() == most) break;
      // Parts are often made of the same operators.
      if (!alone &&
          std::find(words.begin() + 3, words.end(), origin) != words.end()) {
        continue;
      }
      words.push_back(origin);
    }
  }
  return absl::StrCat(absl::StrJoin(words, "_"), "_", number);
}

}  // namespace

void LabelKernels(KernelPlan& plan) {
  size_t kernels = 0;
  for (PlannedStep& step : plan.steps) {
    if (KernelsOf(step).empty()) continue;
    std::string label = LabelOf(step, kernels++);
    if (auto* all = std::get_if<CombinedKernel>(&step)) {
      all->label = std::move(label);
    } else {
      KernelsOf(step)[0].label = std::move(label);
    }
  }
}

}  // namespace kiln
