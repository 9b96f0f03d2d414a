#include "compiler/codegen/index_text.h"

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

std::string NumberText(int64_t value, bool index32) {
  return absl::StrCat(value, index32 ? "" : "ll");
}

std::string AtomText(const SymExpr::Atom& atom, const IndexDialect& dialect) {
  if (atom.is_var()) return dialect.name_of(atom.var);
  const auto& [left, right] = *atom.operands;
  const std::string l = IndexText(left, dialect);
  const std::string r = IndexText(right, dialect);
  const bool plain = dialect.not_negative(left) && dialect.not_negative(right);
  const char* bits = dialect.index32 ? "i32" : "i64";
  switch (atom.op) {
    case SymOp::kFloorDiv:
      return plain ? absl::StrCat("(", l, " / ", r, ")")
                   : absl::StrCat("k_floordiv_", bits, "(", l, ", ", r, ")");
    case SymOp::kMod:
      return plain ? absl::StrCat("(", l, " % ", r, ")")
                   : absl::StrCat("k_remainder_", bits, "(", l, ", ", r, ")");
    case SymOp::kMin:
      return absl::StrCat("k_minimum_", bits, "(", l, ", ", r, ")");
    case SymOp::kMax:
      return absl::StrCat("k_maximum_", bits, "(", l, ", ", r, ")");
  }
  return "";
}

}  // namespace

std::string IndexText(const SymExpr& e, const IndexDialect& dialect) {
  if (e.is_constant()) {
    const std::string text = NumberText(e.constant(), dialect.index32);
    return e.constant() < 0 ? absl::StrCat("(", text, ")") : text;
  }
  std::string out;
  for (const SymExpr::Term& term : e.sum().terms) {
    int64_t coefficient = term.coefficient;
    if (!out.empty()) {
      out += coefficient < 0 ? " - " : " + ";
      if (coefficient < 0) coefficient = -coefficient;
    }
    if (term.atoms.empty()) {
      out += NumberText(coefficient, dialect.index32);
      continue;
    }
    if (coefficient != 1)
      absl::StrAppend(&out, NumberText(coefficient, dialect.index32), "*");
    for (size_t i = 0; i < term.atoms.size(); ++i)
      absl::StrAppend(&out, i == 0 ? "" : "*",
                      AtomText(term.atoms[i], dialect));
  }
  const bool single = e.sum().terms.size() == 1 &&
                      e.sum().terms[0].atoms.size() == 1 &&
                      e.sum().terms[0].coefficient == 1;
  return single ? out : absl::StrCat("(", out, ")");
}

}  // namespace kiln
