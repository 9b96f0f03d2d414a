#include "compiler/codegen/kernel_names.h"

#include "absl/strings/str_cat.h"
#include "compiler/schedule/kernel_labels.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

constexpr int kDigestDigits = 12;

std::string WithDigest(absl::string_view stem, absl::string_view text) {
  return absl::StrCat(stem, "_", Sha256Of(text).Hex().substr(0, kDigestDigits));
}

}  // namespace

absl::string_view SymbolDigest(absl::string_view symbol) {
  return symbol.substr(symbol.size() - kDigestDigits);
}

std::string KernelSymbol(const PlannedKernel& kernel, absl::string_view text) {
  return WithDigest(KernelStem(kernel), text);
}

std::string KernelSymbol(const CombinedKernel& kernel, absl::string_view text) {
  return WithDigest(KernelStem(kernel), text);
}

std::string KernelSymbol(const FlashKernel& kernel, absl::string_view text) {
  return WithDigest(KernelStem(kernel), text);
}

}  // namespace kiln
