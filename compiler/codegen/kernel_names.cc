#include "compiler/codegen/kernel_names.h"

#include "absl/strings/str_cat.h"
#include "compiler/schedule/kernel_labels.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

constexpr int kDigestDigits = 12;

}  // namespace

absl::string_view SymbolDigest(absl::string_view symbol) {
  return symbol.substr(symbol.size() - kDigestDigits);
}

std::string KernelSymbol(absl::string_view label, absl::string_view text) {
  return absl::StrCat(StemOfLabel(label), "_",
                      Sha256Of(text).Hex().substr(0, kDigestDigits));
}

}  // namespace kiln
