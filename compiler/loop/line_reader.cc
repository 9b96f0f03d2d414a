#include "compiler/loop/line_reader.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/sym/sym_text.h"

namespace kiln {

namespace {

constexpr size_t kShownCharacters = 30;

}  // namespace

LineReader::LineReader(absl::string_view line, size_t number)
    : line_(line), rest_(line), number_(number) {
  Skip();
}

bool LineReader::Take(absl::string_view mark) {
  if (!ok() || rest_.substr(0, mark.size()) != mark) return false;
  rest_.remove_prefix(mark.size());
  Skip();
  return true;
}

void LineReader::Expect(absl::string_view mark) {
  if (!Take(mark)) {
    Fail(absl::StrCat("'", absl::StripAsciiWhitespace(mark), "'"));
  }
}

void LineReader::ExpectEnd() {
  if (!done()) Fail("the end of the line");
}

absl::string_view LineReader::PeekWord() const {
  size_t n = 0;
  while (
      n < rest_.size() &&
      (absl::ascii_isalnum(static_cast<unsigned char>(rest_[n])) ||
       absl::string_view("_.+@%").find(rest_[n]) != absl::string_view::npos)) {
    ++n;
  }
  return rest_.substr(0, n);
}

std::string LineReader::Word(absl::string_view expected) {
  const absl::string_view word = PeekWord();
  if (!ok() || word.empty()) {
    Fail(expected);
    return "";
  }
  std::string out(word);
  rest_.remove_prefix(word.size());
  Skip();
  return out;
}

std::string LineReader::Quoted() {
  const absl::string_view place = rest_;
  Expect("\"");
  size_t n = 0;
  while (n < rest_.size() && rest_[n] != '"') n += rest_[n] == '\\' ? 2 : 1;
  std::string out;
  if (!ok() || n >= rest_.size() ||
      !absl::CUnescape(rest_.substr(0, n), &out)) {
    FailAt(place, "a text in quotes");
    return "";
  }
  rest_.remove_prefix(n + 1);
  Skip();
  return out;
}

absl::string_view LineReader::Token() {
  const size_t n = std::min(rest_.size(), rest_.find_first_of(" ,)];"));
  const absl::string_view token = rest_.substr(0, n);
  rest_.remove_prefix(n);
  Skip();
  return token;
}

int64_t LineReader::Int() {
  const absl::string_view place = rest_;
  int64_t value = 0;
  if (!ok() || !absl::SimpleAtoi(Token(), &value)) {
    FailAt(place, "an integer");
    return 0;
  }
  return value;
}

double LineReader::Float() {
  const absl::string_view place = rest_;
  if (!ok()) return 0;
  const std::string token(Token());
  char* end = nullptr;
  const double value = std::strtod(token.c_str(), &end);
  if (token.empty() || *end != '\0') FailAt(place, "a number");
  return value;
}

Number LineReader::NumberOf(DType dtype) {
  Number number{.i = 0};
  if (IsFloat(dtype)) {
    number.f = Float();
  } else {
    number.i = Int();
  }
  return number;
}

SymExpr LineReader::Expr() {
  if (!ok()) return 0;
  const absl::string_view place = rest_;
  auto e = ConsumeSymExpr(rest_, DefaultVarOfName);
  if (!e.ok()) {
    FailAt(place, "an expression");
    return 0;
  }
  Skip();
  return *e;
}

DimVector LineReader::Dims() {
  DimVector dims;
  Expect("[");
  while (ok() && !Take("]")) {
    dims.push_back(Expr());
    if (!Take(",") && rest_.substr(0, 1) != "]") Fail("',' or ']'");
  }
  return dims;
}

DType LineReader::Type() {
  size_t n = 0;
  while (n < rest_.size() &&
         absl::ascii_isalnum(static_cast<unsigned char>(rest_[n]))) {
    ++n;
  }
  const auto dtype = DTypeFromShortName(rest_.substr(0, n));
  if (!ok() || !dtype.has_value()) {
    Fail("an element type");
    return DType::kFloat32;
  }
  rest_.remove_prefix(n);
  Skip();
  return *dtype;
}

ScalarId LineReader::Node() {
  Expect("t");
  return static_cast<ScalarId>(Int());
}

void LineReader::FailAt(absl::string_view place, absl::string_view expected) {
  if (!ok()) return;
  failed_at_ = place;
  expected_ = std::string(expected);
}

absl::Status LineReader::status() const {
  if (ok()) return absl::OkStatus();
  const absl::string_view found = failed_at_.substr(0, kShownCharacters);
  return absl::InvalidArgumentError(
      absl::StrCat("line ", number_, " column ",
                   failed_at_.data() - line_.data() + 1, ": found ",
                   found.empty() ? std::string("the end of the line")
                                 : absl::StrCat("'", found, "'"),
                   ", expected ", expected_));
}

void LineReader::Skip() {
  while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
}

}  // namespace kiln
