#include "proto/key/cache_namespace.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

bool IsWordChar(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c));
}

}  // namespace

absl::StatusOr<std::string> NamespaceNamed(absl::string_view name) {
  if (name.empty()) return std::string(kDefaultNamespace);
  const bool known = std::all_of(name.begin(), name.end(), [](char c) {
    return IsWordChar(c) || c == '-' || c == '_' || c == '.';
  });
  if (known && IsWordChar(name[0]) && name.size() <= kMaxNamespace)
    return std::string(name);
  constexpr size_t kShown = 80;
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("namespace \"", absl::CHexEscape(name.substr(0, kShown)),
                   "\": expected 1 to ", kMaxNamespace,
                   " of a-z, 0-9, '-', '_' and '.', the first a letter or a "
                   "digit"));
}

}  // namespace kiln
