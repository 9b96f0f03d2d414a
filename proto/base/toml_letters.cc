#include "proto/base/toml_letters.h"

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

// What stands on a line before a quote: it says whether the quote begins a
// string. In `a = 25"` and `a = 25 = "` toml++ reads on to a bare value's end.
class LineBefore {
 public:
  void Add(char letter) {
    if (letter == '\n') {
      *this = LineBefore();
    } else if (letter != ' ' && letter != '\t') {
      if (letter == '=') ++num_equals_;
      if (letter != '[') begins_value_ = BeginsValue(letter);
    }
  }

  bool AllowsString() const { return begins_value_; }

 private:
  bool BeginsValue(char letter) const {
    return letter == ',' || (letter == '=' && num_equals_ == 1);
  }

  int num_equals_ = 0;
  // At a line's start, where a key or an array goes on, and behind `=`, `,` and
  // the `[` that follow them.
  bool begins_value_ = true;
};

// The first letter beyond ASCII that toml++ would look at as if it were one of
// TOML's own; npos when there is none.
size_t FindStrayLetter(absl::string_view toml, size_t at) {
  const auto beyond_ascii = [](char letter) { return (letter & 0x80) != 0; };
  const auto find_letter = [&](absl::string_view part) {
    return std::find_if(part.begin(), part.end(), beyond_ascii) - toml.begin();
  };
  LineBefore before;
  while (at < toml.size()) {
    const char letter = toml[at];
    if (letter == '#') {
      at = std::min(toml.size(), toml.find('\n', at));
    } else if (letter == '"' || letter == '\'') {
      if (!before.AllowsString()) break;
      const absl::string_view three = toml.substr(at, 3);
      const bool long_one = three == "\"\"\"" || three == "'''";
      const size_t begin = at;
      at = BehindString(toml, at, toml.substr(at, long_one ? 3 : 1));
      // Behind a backslash toml++ skips white space in these.
      const size_t stray = find_letter(toml.substr(begin, at - begin));
      if (three == "\"\"\"" && stray < at) return stray;
      before.Add(letter);
    } else if (beyond_ascii(letter)) {
      return at;
    } else {
      before.Add(letter);
      ++at;
    }
  }
  const size_t stray = find_letter(toml.substr(at));
  return stray < toml.size() ? stray : absl::string_view::npos;
}

}  // namespace

absl::Status CheckTomlLetters(absl::string_view toml, absl::string_view where) {
  const size_t stray = FindStrayLetter(
      toml, absl::StartsWith(toml, kByteOrderMark) ? kByteOrderMark.size() : 0);
  if (stray == absl::string_view::npos) return absl::OkStatus();
  const auto line = 1 + std::count(toml.begin(), toml.begin() + stray, '\n');
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(where, ":", line,
                                ": found a letter beyond ASCII outside of "
                                "\"...\", '...' and comments"));
}

}  // namespace kiln
