#include "proto/plan/text_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

constexpr size_t kShownCharacters = 30;

bool IsWordChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.' || c == '+';
}

struct BinaryRow {
  int precedence;
  absl::string_view text;
  wire::SymOp op;
};
// As sym_eval.cc prints them; a mark stands before its own beginning.
constexpr BinaryRow kBinaries[] = {
    {1, "or", wire::SYM_OP_OR}, {2, "and", wire::SYM_OP_AND},
    {3, "==", wire::SYM_OP_EQ}, {3, "!=", wire::SYM_OP_NE},
    {3, "<=", wire::SYM_OP_LE}, {3, "<", wire::SYM_OP_LT},
    {4, "+", wire::SYM_OP_ADD}, {5, "*", wire::SYM_OP_MUL},
};
constexpr int kHighestPrecedence = 5;

struct CallRow {
  absl::string_view name;
  int arity;
  wire::SymOp op;
};
constexpr CallRow kCalls[] = {{"floordiv", 2, wire::SYM_OP_FLOORDIV},
                              {"mod", 2, wire::SYM_OP_MOD},
                              {"min", 2, wire::SYM_OP_MIN},
                              {"max", 2, wire::SYM_OP_MAX},
                              {"not", 1, wire::SYM_OP_NOT}};

// A number alone is no code: an operand needs it as an instruction.
void Append(const wire::SymExpr& e, wire::SymExpr& out) {
  if (e.code_size() == 0) {
    wire::SymInstruction& constant = *out.add_code();
    constant.set_op(wire::SYM_OP_CONSTANT);
    constant.set_value(e.value());
    return;
  }
  out.mutable_code()->MergeFrom(e.code());
}

}  // namespace

TextReader::TextReader(absl::string_view text) : all_(text), rest_(text) {
  SkipSpace();
}

void TextReader::SkipSpace() {
  while (!rest_.empty()) {
    if (absl::ascii_isspace(static_cast<unsigned char>(rest_[0]))) {
      rest_.remove_prefix(1);
    } else if (absl::StartsWith(rest_, "//")) {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    } else {
      return;
    }
  }
}

void TextReader::Move(size_t n) {
  rest_.remove_prefix(n);
  SkipSpace();
}

absl::string_view TextReader::PeekWord() const {
  size_t n = 0;
  while (n < rest_.size() && IsWordChar(rest_[n])) ++n;
  return rest_.substr(0, n);
}

bool TextReader::Take(absl::string_view mark) {
  if (!ok() || !absl::StartsWith(rest_, mark)) return false;
  const bool word =
      absl::ascii_isalnum(static_cast<unsigned char>(mark.back()));
  if (word && mark.size() < rest_.size() && IsWordChar(rest_[mark.size()])) {
    return false;
  }
  Move(mark.size());
  return true;
}

void TextReader::Expect(absl::string_view mark) {
  if (!Take(mark)) Fail(absl::StrCat("'", mark, "'"));
}

std::string TextReader::Word(absl::string_view due) {
  const std::string word(ok() ? PeekWord() : "");
  if (word.empty()) Fail(due);
  Move(word.size());
  return word;
}

int64_t TextReader::Int() {
  size_t n = NextIs('-') ? 1 : 0;
  while (n < rest_.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(rest_[n]))) {
    ++n;
  }
  int64_t value = 0;
  if (!ok() || !absl::SimpleAtoi(rest_.substr(0, n), &value)) {
    Fail("an integer");
    return 0;
  }
  Move(n);
  return value;
}

uint64_t TextReader::Unsigned() {
  const absl::string_view word = PeekWord();
  uint64_t value = 0;
  if (!ok() || !absl::SimpleAtoi(word, &value)) {
    Fail("a number");
    return 0;
  }
  Move(word.size());
  return value;
}

double TextReader::Float() {
  size_t n = 0;
  while (n < rest_.size() && (IsWordChar(rest_[n]) || rest_[n] == '-')) ++n;
  double value = 0;
  if (!ok() || !absl::SimpleAtod(rest_.substr(0, n), &value)) {
    Fail("a number");
    return 0;
  }
  Move(n);
  return value;
}

std::string TextReader::String() {
  size_t n = 1;
  while (n < rest_.size() && rest_[n] != '"') n += rest_[n] == '\\' ? 2 : 1;
  std::string out;
  if (!ok() || !NextIs('"') || n >= rest_.size() ||
      !absl::CUnescape(rest_.substr(1, n - 1), &out)) {
    Fail("a string in quotes");
    return "";
  }
  Move(n + 1);
  return out;
}

bool TextReader::TakeLineMark() {
  if (!ok() || !absl::ConsumePrefix(&rest_, "|")) return false;
  absl::ConsumePrefix(&rest_, " ");
  return true;
}

bool TextReader::WordBefore(char mark) const {
  const size_t n = PeekWord().size();
  return n > 0 && n < rest_.size() && rest_[n] == mark;
}

std::string TextReader::Line() {
  const size_t n = std::min(rest_.find('\n'), rest_.size());
  const std::string line(ok() ? rest_.substr(0, n) : "");
  Move(n);
  return line;
}

wire::SymExpr TextReader::Binary(int precedence) {
  if (precedence > kHighestPrecedence) return Atom();
  wire::SymExpr left = Binary(precedence + 1);
  while (ok()) {
    const BinaryRow* found = nullptr;
    for (const BinaryRow& row : kBinaries) {
      if (row.precedence == precedence && Take(row.text)) {
        found = &row;
        break;
      }
    }
    if (found == nullptr) break;
    wire::SymExpr whole;
    Append(left, whole);
    Append(Binary(precedence + 1), whole);
    whole.add_code()->set_op(found->op);
    left = std::move(whole);
  }
  return left;
}

wire::SymExpr TextReader::Call(absl::string_view name) {
  wire::SymExpr out;
  for (const CallRow& row : kCalls) {
    if (row.name != name) continue;
    Move(name.size());
    Expect("(");
    for (int i = 0; i < row.arity; ++i) {
      if (i > 0) Expect(",");
      Append(Binary(1), out);
    }
    Expect(")");
    out.add_code()->set_op(row.op);
    return out;
  }
  Fail("a number, a symbol, a call or '('");
  return out;
}

wire::SymExpr TextReader::Atom() {
  wire::SymExpr out;
  // Each level is a call of ours, so that depth is bounded.
  if (depth_ >= SymProgram::kMaxDepth) Fail("fewer brackets in one another");
  if (!ok()) return out;
  if (NextIs('-') || (!rest_.empty() && absl::ascii_isdigit(rest_[0]))) {
    out.set_value(Int());
    return out;
  }
  ++depth_;
  if (Take("(")) {
    out = Binary(1);
    Expect(")");
  } else {
    const absl::string_view word = PeekWord();
    int64_t symbol = 0;
    if (absl::StartsWith(word, "s") &&
        absl::SimpleAtoi(word.substr(1), &symbol) && symbol >= 0) {
      Move(word.size());
      out.add_code()->set_op(wire::SYM_OP_SYMBOL);
      out.mutable_code(0)->set_value(symbol);
    } else {
      out = Call(word);
    }
  }
  --depth_;
  return out;
}

void TextReader::Fail(absl::string_view due) {
  if (!ok()) return;
  failed_at_ = rest_;
  due_ = std::string(due);
}

absl::Status TextReader::status() const {
  if (ok()) return absl::OkStatus();
  const size_t at = failed_at_.data() - all_.data();
  const absl::string_view before = all_.substr(0, at);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  absl::string_view found = failed_at_.substr(0, kShownCharacters);
  found = found.substr(0, found.find('\n'));
  return absl::InvalidArgumentError(absl::StrCat(
      "line ", 1 + std::count(before.begin(), before.end(), '\n'), " column ",
      at - line_start + 1, ": found ",
      found.empty() ? std::string("the end") : absl::StrCat("'", found, "'"),
      ", expected ", due_));
}

}  // namespace kiln
