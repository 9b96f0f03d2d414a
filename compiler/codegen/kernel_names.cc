#include "compiler/codegen/kernel_names.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

constexpr size_t kMaxOrigins = 10;
constexpr int kDigestDigits = 12;

absl::string_view Kind(const PlannedKernel& kernel) {
  const bool reduces =
      std::any_of(kernel.nest.axes.begin(), kernel.nest.axes.end(),
                  [](const Axis& axis) { return axis.reduction; });
  if (!reduces) return "poi";
  return kernel.tiling.persistent ? "per" : "red";
}

// Only what may stand in a C identifier.
std::string Word(absl::string_view origin) {
  std::string word;
  for (char c : origin) word += absl::ascii_isalnum(c) ? c : '_';
  return word;
}

}  // namespace

std::string KernelStem(const PlannedKernel& kernel) {
  std::string stem = absl::StrCat("kiln_", Kind(kernel), "_fused");
  std::vector<std::string> seen;
  for (const std::string& origin : kernel.nest.origins) {
    if (seen.size() == kMaxOrigins) break;
    if (std::find(seen.begin(), seen.end(), origin) != seen.end()) continue;
    seen.push_back(origin);
    absl::StrAppend(&stem, "_", Word(origin));
  }
  return stem;
}

std::string KernelLabel(const PlannedKernel& kernel, int number) {
  return absl::StrCat(KernelStem(kernel), "_", number);
}

std::string KernelSymbol(const PlannedKernel& kernel, absl::string_view text) {
  return absl::StrCat(KernelStem(kernel), "_",
                      Sha256Of(text).Hex().substr(0, kDigestDigits));
}

}  // namespace kiln
