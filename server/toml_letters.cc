#include "server/toml_letters.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// The place behind the string that begins at `at` with `quote`. One that does not
// end ends with its line, or with the text.
size_t BehindString(absl::string_view toml, size_t at,
                    absl::string_view quote) {
  const bool has_escapes = quote.front() == '"';
  const bool of_one_line = quote.size() == 1;
  for (at += quote.size(); at < toml.size(); ++at) {
    if (absl::StartsWith(toml.substr(at), quote)) return at + quote.size();
    if (of_one_line && toml[at] == '\n') return at;
    if (has_escapes && toml[at] == '\\') ++at;
  }
  return toml.size();
}

}  // namespace

absl::Status CheckTomlLetters(absl::string_view toml, absl::string_view where) {
  size_t at =
      absl::StartsWith(toml, kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < toml.size()) {
    const char letter = toml[at];
    if (letter == '#') {
      at = std::min(toml.size(), toml.find('\n', at));
    } else if (letter == '"' || letter == '\'') {
      const absl::string_view three = toml.substr(at, 3);
      const bool long_one = three == "\"\"\"" || three == "'''";
      at = BehindString(toml, at, toml.substr(at, long_one ? 3 : 1));
    } else if ((letter & 0x80) != 0) {
      const auto line = 1 + std::count(toml.begin(), toml.begin() + at, '\n');
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat(where, ":", line,
                                    ": found a letter beyond ASCII outside of "
                                    "strings and comments, none is due"));
    } else {
      ++at;
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
