#include "proto/key/token_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace kiln {
namespace {

bool IsOfSecret(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '_';
}

// As of namespaces (cache_namespace.h).
bool IsOfName(char c) {
  return (IsOfSecret(c) &&
          !absl::ascii_isupper(static_cast<unsigned char>(c))) ||
         c == '.';
}

}  // namespace

absl::string_view TokenNameIn(absl::string_view given) {
  const size_t dot = given.rfind('.');
  if (dot != absl::string_view::npos) {
    const absl::string_view secret = given.substr(dot + 1);
    if (secret.size() == kTokenSecretText &&
        std::all_of(secret.begin(), secret.end(), IsOfSecret)) {
      return given.substr(0, dot);
    }
  }
  return given.substr(
      0,
      std::find_if_not(given.begin(), given.end(), IsOfName) - given.begin());
}

}  // namespace kiln
