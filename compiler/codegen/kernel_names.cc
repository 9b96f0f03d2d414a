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
  std::string stem = absl::StrCat("kiln_", kind, "_fused");
  std::vector<std::string> seen;
  for (const PlannedKernel& kernel : kernels) {
    for (const std::string& origin : kernel.nest.origins) {
      if (seen.size() == kMaxOrigins) return stem;
      if (std::find(seen.begin(), seen.end(), origin) != seen.end()) continue;
      seen.push_back(origin);
      absl::StrAppend(&stem, "_", Word(origin));
    }
  }
  return stem;
}

std::string WithDigest(absl::string_view stem, absl::string_view text) {
  return absl::StrCat(stem, "_", Sha256Of(text).Hex().substr(0, kDigestDigits));
}

}  // namespace

std::string KernelStem(const PlannedKernel& kernel) {
  return Stem(Kind(kernel), {&kernel, 1});
}

std::string KernelStem(const CombinedKernel& kernel) {
  return Stem("for", kernel.parts);
}

std::string KernelLabel(const PlannedKernel& kernel, int number) {
  return absl::StrCat(KernelStem(kernel), "_", number);
}

std::string KernelSymbol(const PlannedKernel& kernel, absl::string_view text) {
  return WithDigest(KernelStem(kernel), text);
}

std::string KernelSymbol(const CombinedKernel& kernel, absl::string_view text) {
  return WithDigest(KernelStem(kernel), text);
}

}  // namespace kiln
