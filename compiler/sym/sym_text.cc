#include "compiler/sym/sym_text.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

class SymParser {
 public:
  SymParser(absl::string_view text, VarOfName var_of)
      : text_(text), var_of_(var_of) {}

  absl::string_view rest() const { return text_; }

  absl::StatusOr<SymExpr> Sum() {
    if (++depth_ > 100) return Unexpected("less than 100 levels of brackets");
    const bool negative = Take("-");
    ASSIGN_OR_RETURN(SymExpr total, Product());
    if (negative) total = total * -1;
    while (true) {
      if (Take("+")) {
        ASSIGN_OR_RETURN(const SymExpr right, Product());
        total = total + right;
      } else if (Take("-")) {
        ASSIGN_OR_RETURN(const SymExpr right, Product());
        total = total - right;
      } else {
        --depth_;
        return total;
      }
    }
  }

 private:
  absl::StatusOr<SymExpr> Product() {
    ASSIGN_OR_RETURN(SymExpr total, Factor());
    while (true) {
      // Also when the text goes on in another language: "a // comment".
      const absl::string_view before = text_;
      if (Take("//")) {
        if (!StartsFactor()) {
          text_ = before;
          return total;
        }
        ASSIGN_OR_RETURN(const SymExpr right, Factor());
        total = FloorDiv(total, right);
      } else if (Take("*")) {
        ASSIGN_OR_RETURN(const SymExpr right, Factor());
        total = total * right;
      } else if (Take("%")) {
        ASSIGN_OR_RETURN(const SymExpr right, Factor());
        total = Mod(total, right);
      } else {
        return total;
      }
    }
  }

  absl::StatusOr<SymExpr> Factor() {
    SkipSpace();
    if (Take("(")) {
      ASSIGN_OR_RETURN(SymExpr inner, Sum());
      if (!Take(")")) return Unexpected("a closing bracket");
      return inner;
    }
    size_t n = 0;
    while (n < text_.size() && IsNameChar(text_[n])) ++n;
    if (n == 0) return Unexpected("a number, a name or a bracket");
    const absl::string_view word = text_.substr(0, n);
    if (absl::ascii_isdigit(static_cast<unsigned char>(word[0]))) {
      int64_t number;
      if (!absl::SimpleAtoi(word, &number)) return Unexpected("an integer");
      text_.remove_prefix(n);
      return SymExpr(number);
    }
    if ((word == "min" || word == "max") && text_.size() > n &&
        text_[n] == '(') {
      text_.remove_prefix(n + 1);
      ASSIGN_OR_RETURN(const SymExpr left, Sum());
      if (!Take(",")) return Unexpected("a comma");
      ASSIGN_OR_RETURN(const SymExpr right, Sum());
      if (!Take(")")) return Unexpected("a closing bracket");
      return word == "min" ? Min(left, right) : Max(left, right);
    }
    const std::optional<Var> var = var_of_(word);
    if (!var.has_value()) return Unexpected("a known variable");
    text_.remove_prefix(n);
    return SymExpr::Of(*var);
  }

  bool StartsFactor() {
    SkipSpace();
    return !text_.empty() && (text_[0] == '(' || IsNameChar(text_[0]));
  }

  void SkipSpace() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }
  // Leaves the text alone when the token is not next.
  bool Take(absl::string_view token) {
    absl::string_view ahead = text_;
    while (!ahead.empty() && ahead[0] == ' ') ahead.remove_prefix(1);
    if (!absl::ConsumePrefix(&ahead, token)) return false;
    text_ = ahead;
    return true;
  }
  absl::Status Unexpected(absl::string_view due) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "expression: found '", text_.substr(0, 20), "', expected ", due));
  }

  absl::string_view text_;
  VarOfName var_of_;
  int depth_ = 0;
};

bool IsLeaf(const SymExpr& e) {
  Var var;
  return (e.is_constant() && e.constant() >= 0) || e.AsVar(&var);
}

std::string OperandText(const SymExpr& e,
                        absl::FunctionRef<std::string(Var)> name_of) {
  const std::string text = e.ToString(name_of);
  return IsLeaf(e) ? text : absl::StrCat("(", text, ")");
}

std::string AtomText(const SymExpr::Atom& atom, bool alone,
                     absl::FunctionRef<std::string(Var)> name_of) {
  if (atom.is_var()) return name_of(atom.var);
  const auto& [left, right] = *atom.operands;
  absl::string_view sign;
  switch (atom.op) {
    case SymOp::kMin:
      return absl::StrCat("min(", left.ToString(name_of), ", ",
                          right.ToString(name_of), ")");
    case SymOp::kMax:
      return absl::StrCat("max(", left.ToString(name_of), ", ",
                          right.ToString(name_of), ")");
    case SymOp::kFloorDiv:
      sign = " // ";
      break;
    case SymOp::kMod:
      sign = " % ";
      break;
  }
  const std::string text = absl::StrCat(OperandText(left, name_of), sign,
                                        OperandText(right, name_of));
  return alone ? text : absl::StrCat("(", text, ")");
}

}  // namespace

absl::StatusOr<SymExpr> ConsumeSymExpr(absl::string_view& text,
                                       VarOfName var_of) {
  SymParser parser(text, var_of);
  ASSIGN_OR_RETURN(SymExpr e, parser.Sum());
  text = parser.rest();
  return e;
}

absl::StatusOr<SymExpr> ParseSymExpr(absl::string_view text, VarOfName var_of) {
  ASSIGN_OR_RETURN(SymExpr e, ConsumeSymExpr(text, var_of));
  if (!absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expression: found '", text, "' after its end"));
  }
  return e;
}

std::optional<Var> DefaultVarOfName(absl::string_view name) {
  uint32_t index;
  if (name.size() < 2 || !absl::SimpleAtoi(name.substr(1), &index)) {
    return std::nullopt;
  }
  switch (name[0]) {
    case 's':
      return Var{Var::Kind::kSymbol, index};
    case 'i':
      return Var{Var::Kind::kAxis, index};
    case 't':
      return Var{Var::Kind::kIndirect, index};
    default:
      return std::nullopt;
  }
}

std::string SymExpr::ToString(
    absl::FunctionRef<std::string(Var)> name_of) const {
  if (is_constant()) return absl::StrCat(value_);
  std::string text;
  for (const Term& term : sum_->terms) {
    const bool negative = term.coefficient < 0;
    const uint64_t size = negative ? uint64_t{0} - uint64_t(term.coefficient)
                                   : uint64_t(term.coefficient);
    if (text.empty()) {
      if (negative) text.push_back('-');
    } else {
      absl::StrAppend(&text, negative ? " - " : " + ");
    }
    const bool alone = size == 1 && term.atoms.size() == 1 && !negative;
    if (term.atoms.empty() || size != 1) {
      absl::StrAppend(&text, size, term.atoms.empty() ? "" : "*");
    }
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : "*",
                      AtomText(term.atoms[i], alone, name_of));
    }
  }
  return text;
}

std::string SymExpr::ToString() const {
  return ToString([](Var var) {
    switch (var.kind) {
      case Var::Kind::kSymbol:
        return absl::StrCat("s", var.index);
      case Var::Kind::kAxis:
        return absl::StrCat("i", var.index);
      case Var::Kind::kIndirect:
        return absl::StrCat("t", var.index);
    }
    return std::string("?");
  });
}

}  // namespace kiln
