#include "compiler/graph/text_cursor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

bool IsWordChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.';
}

}  // namespace

void TextCursor::SkipSpace() {
  while (true) {
    while (!rest_.empty() &&
           absl::ascii_isspace(static_cast<unsigned char>(rest_[0]))) {
      rest_.remove_prefix(1);
    }
    // `//` is a comment at the start of a line only: elsewhere it divides.
    size_t at = rest_.data() - all_.data();
    while (at > 0 && all_[at - 1] == ' ') --at;
    const bool line_starts = at == 0 || all_[at - 1] == '\n';
    if (!line_starts || !absl::StartsWith(rest_, "//")) return;
    rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
  }
}

bool TextCursor::Take(absl::string_view token) {
  if (!absl::ConsumePrefix(&rest_, token)) return false;
  SkipSpace();
  return true;
}

bool TextCursor::TakeWord(absl::string_view word) {
  return PeekWord() == word && Take(word);
}

absl::Status TextCursor::Expect(absl::string_view token) {
  return Take(token) ? absl::OkStatus()
                     : Unexpected(absl::StrCat("'", token, "'"));
}

absl::string_view TextCursor::PeekWord() const {
  size_t n = 0;
  while (n < rest_.size() && IsWordChar(rest_[n])) ++n;
  return rest_.substr(0, n);
}

absl::string_view TextCursor::TakeAnyWord() {
  const absl::string_view word = PeekWord();
  Take(word);
  return word;
}

absl::StatusOr<int64_t> TextCursor::TakeInteger() {
  size_t n = absl::StartsWith(rest_, "-") ? 1 : 0;
  while (n < rest_.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(rest_[n]))) {
    ++n;
  }
  int64_t value;
  if (!absl::SimpleAtoi(rest_.substr(0, n), &value)) {
    return Unexpected("an integer");
  }
  Take(rest_.substr(0, n));
  return value;
}

bool TextCursor::TakeFloat(double* value) {
  const size_t sign = absl::StartsWith(rest_, "-") ? 1 : 0;
  size_t n = sign;
  bool is_float = false;
  if (absl::StartsWith(rest_.substr(n), "inf") ||
      absl::StartsWith(rest_.substr(n), "nan")) {
    is_float = n + 3 == rest_.size() || !IsWordChar(rest_[n + 3]);
    n += 3;
  } else {
    while (n < rest_.size() &&
           (absl::ascii_isdigit(static_cast<unsigned char>(rest_[n])) ||
            rest_[n] == '.' || rest_[n] == 'e' ||
            (n > sign && rest_[n - 1] == 'e' &&
             (rest_[n] == '-' || rest_[n] == '+')))) {
      is_float = is_float || rest_[n] == '.' || rest_[n] == 'e';
      ++n;
    }
  }
  if (!is_float || n == sign || rest_[sign] == 'e') return false;
  if (!absl::SimpleAtod(rest_.substr(0, n), value)) return false;
  Take(rest_.substr(0, n));
  return true;
}

absl::StatusOr<SymExpr> TextCursor::TakeSymExpr(VarOfName var_of) {
  absl::string_view ahead = rest_;
  absl::StatusOr<SymExpr> e = ConsumeSymExpr(ahead, var_of);
  if (!e.ok()) return Unexpected(std::string(e.status().message()));
  rest_ = ahead;
  SkipSpace();
  return e;
}

absl::StatusOr<std::string> TextCursor::TakeString() {
  if (!absl::StartsWith(rest_, "\"")) return Unexpected("a string");
  std::string out;
  size_t n = 1;
  while (n < rest_.size() && rest_[n] != '"') {
    if (rest_[n] == '\\' && n + 1 < rest_.size()) ++n;
    out.push_back(rest_[n++]);
  }
  if (n >= rest_.size()) return Unexpected("a string with an end");
  Take(rest_.substr(0, n + 1));
  return out;
}

absl::StatusOr<std::string> TextCursor::TakeHexBytes() {
  const absl::string_view word = PeekWord();
  const bool sound =
      absl::StartsWith(word, "0x") && word.size() % 2 == 0 &&
      std::all_of(word.begin() + 2, word.end(),
                  [](unsigned char c) { return absl::ascii_isxdigit(c); });
  if (!sound) return Unexpected("bytes in hex");
  Take(word);
  return absl::HexStringToBytes(word.substr(2));
}

absl::Status TextCursor::Unexpected(absl::string_view due) const {
  const size_t at = rest_.data() - all_.data();
  const auto line = 1 + std::count(all_.begin(), all_.begin() + at, '\n');
  const absl::string_view found =
      rest_.substr(0, std::min<size_t>(rest_.find('\n'), 30));
  return absl::InvalidArgumentError(absl::StrCat(
      "line ", line, ": found ",
      AtEnd() ? std::string("the end") : absl::StrCat("'", found, "'"),
      ", expected ", due));
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text;
  for (int digits = 6; digits <= 17; ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    double back;
    if (absl::SimpleAtod(text, &back) && back == value) break;
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string QuotedText(absl::string_view text) {
  std::string out;
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

}  // namespace kiln
