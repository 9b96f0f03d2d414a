#include "compiler/schedule/kernel_labels.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

// Source: Inductor's kernel_name_max_ops.
constexpr size_t kMostOriginsInName = 10;

constexpr absl::string_view kTemplates[] = {
    "addbmm",      "addmm",   "addmv", "baddbmm", "bmm",
    "convolution", "_int_mm", "mm",    "mv",      "convolution_backward"};

bool ComesFromTemplate(const LoopNest& nest) {
  return std::any_of(
      nest.origins.begin(), nest.origins.end(), [](const std::string& origin) {
        return std::find(std::begin(kTemplates), std::end(kTemplates),
                         origin) != std::end(kTemplates);
      });
}

bool IsOfLists(absl::string_view origin) {
  return absl::StartsWith(origin, "_foreach_");
}

absl::string_view KindOf(const PlannedKernel& kernel) {
  if (ComesFromLists(kernel.nest)) return "for";
  if (!HasReduction(kernel.nest)) return "poi";
  if (ComesFromTemplate(kernel.nest)) return "tem";
  const bool scans = std::holds_alternative<CudaScans>(kernel.variant) ||
                     std::holds_alternative<CudaColumnScans>(kernel.variant);
  if (scans && PartsOf(kernel.variant) > 1) return "spl";
  const auto* rows = std::get_if<CudaRows>(&kernel.variant);
  return rows != nullptr && rows->held > 0 ? "per" : "red";
}

// Only what may stand in a C identifier.
std::string Word(absl::string_view origin) {
  std::string word;
  for (char c : origin) word += absl::ascii_isalnum(c) ? c : '_';
  return word;
}

std::string Stem(absl::string_view kind,
                 absl::Span<const PlannedKernel> kernels) {
  std::set<std::string> words;
  for (const PlannedKernel& kernel : kernels) {
    for (const std::string& origin : kernel.nest.origins) {
      if (!IsOfLists(origin)) words.insert(Word(origin));
    }
  }
  std::string stem = absl::StrCat("kiln_", kind, "_fused");
  size_t left = kMostOriginsInName;
  for (const std::string& word : words) {
    if (left-- == 0) break;
    absl::StrAppend(&stem, "_", word);
  }
  return stem;
}

}  // namespace

bool ComesFromLists(const LoopNest& nest) {
  return !nest.origins.empty() &&
         std::all_of(nest.origins.begin(), nest.origins.end(), IsOfLists);
}

std::string KernelStem(const PlannedKernel& kernel) {
  return Stem(KindOf(kernel), {&kernel, 1});
}

std::string KernelStem(const CombinedKernel& kernel) {
  return Stem("for", kernel.parts);
}

std::string KernelStem(const FlashKernel& kernel) {
  return absl::StrCat("kiln_tem_fused_", Word(kernel.attention.origin));
}

const std::string& LabelOf(const PlannedStep& step) {
  if (const auto* all = std::get_if<CombinedKernel>(&step)) return all->label;
  if (const auto* flash = std::get_if<FlashKernel>(&step)) return flash->label;
  return std::get<PlannedKernel>(step).label;
}

std::vector<uint32_t> ClientNodesOf(const PlannedStep& step) {
  if (const auto* flash = std::get_if<FlashKernel>(&step))
    return flash->attention.client_nodes;
  LoopNest all;
  for (const PlannedKernel& part : KernelsOf(step)) TakeOrigins(part.nest, all);
  return all.client_nodes;
}

void LabelKernels(KernelPlan& plan) {
  size_t kernels = 0;
  for (PlannedStep& step : plan.steps) {
    if (auto* all = std::get_if<CombinedKernel>(&step)) {
      all->label = absl::StrCat(KernelStem(*all), "_", kernels++);
    } else if (auto* kernel = std::get_if<PlannedKernel>(&step)) {
      kernel->label = absl::StrCat(KernelStem(*kernel), "_", kernels++);
    } else if (auto* flash = std::get_if<FlashKernel>(&step)) {
      flash->label = absl::StrCat(KernelStem(*flash), "_", kernels++);
    }
  }
}

}  // namespace kiln
