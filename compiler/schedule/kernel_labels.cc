#include "compiler/schedule/kernel_labels.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

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

// Replaces characters that a C identifier may not have.
std::string Word(absl::string_view origin) {
  std::string word;
  for (char c : origin) word += absl::ascii_isalnum(c) ? c : '_';
  return word;
}

absl::string_view KindOf(const PlannedStep& step) {
  if (const auto* kernel = std::get_if<PlannedKernel>(&step))
    return KindOf(*kernel);
  return std::holds_alternative<FlashKernel>(step) ? "tem" : "for";
}

// The operators that a step came from.
std::set<std::string> WordsOf(const PlannedStep& step) {
  std::set<std::string> words;
  if (const auto* flash = std::get_if<FlashKernel>(&step))
    words.insert(Word(flash->attention.origin));
  for (const PlannedKernel& kernel : KernelsOf(step)) {
    for (const std::string& origin : kernel.nest.origins) {
      if (!IsOfLists(origin)) words.insert(Word(origin));
    }
  }
  return words;
}

std::set<std::string> ClientWordsOf(const PlannedStep& step,
                                    const std::vector<std::string>& all) {
  std::set<std::string> words;
  for (const uint32_t node : ClientNodesOf(step)) {
    if (node < all.size() && !all[node].empty()) words.insert(Word(all[node]));
  }
  return words;
}

std::string Stem(const PlannedStep& step, const KernelPlan& plan) {
  std::string stem = absl::StrCat("kiln_", KindOf(step), "_fused");
  size_t left = kMostOriginsInName;
  for (const std::string& word : plan.client_words.empty()
                                     ? WordsOf(step)
                                     : ClientWordsOf(step, plan.client_words)) {
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

const std::string& LabelOf(const PlannedStep& step) {
  if (const auto* all = std::get_if<CombinedKernel>(&step)) return all->label;
  if (const auto* flash = std::get_if<FlashKernel>(&step)) return flash->label;
  return std::get<PlannedKernel>(step).label;
}

absl::string_view StemOfLabel(absl::string_view label) {
  return label.substr(0, label.rfind('_'));
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
    if (!IsLaunch(step)) continue;
    std::string label = absl::StrCat(Stem(step, plan), "_", kernels++);
    if (auto* all = std::get_if<CombinedKernel>(&step)) {
      all->label = std::move(label);
    } else if (auto* flash = std::get_if<FlashKernel>(&step)) {
      flash->label = std::move(label);
    } else {
      std::get<PlannedKernel>(step).label = std::move(label);
    }
  }
}

}  // namespace kiln
