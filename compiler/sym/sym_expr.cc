#include "compiler/sym/sym_expr.h"

#include <algorithm>
#include <utility>

#include "compiler/sym/sym_arith.h"

namespace kiln {
namespace {

using Atom = SymExpr::Atom;
using Term = SymExpr::Term;
using Sum = SymExpr::Sum;
using Terms = SymExpr::Terms;

uint64_t Mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 33);
}

int Compare(const SymExpr& a, const SymExpr& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

// Variables stand before operations.
int CompareAtoms(const Atom& a, const Atom& b) {
  if (a.is_var() != b.is_var()) return a.is_var() ? -1 : 1;
  if (a.is_var()) return a.var < b.var ? -1 : (b.var < a.var ? 1 : 0);
  if (a.op != b.op) return a.op < b.op ? -1 : 1;
  if (a.operands == b.operands) return 0;
  if (const int left = Compare(a.operands->first, b.operands->first);
      left != 0) {
    return left;
  }
  return Compare(a.operands->second, b.operands->second);
}

// A longer product stands before its prefix: the constant term is last.
int CompareProducts(const Term& a, const Term& b) {
  const size_t n = std::min(a.atoms.size(), b.atoms.size());
  for (size_t i = 0; i < n; ++i) {
    if (const int c = CompareAtoms(a.atoms[i], b.atoms[i]); c != 0) return c;
  }
  if (a.atoms.size() == b.atoms.size()) return 0;
  return a.atoms.size() > b.atoms.size() ? -1 : 1;
}

}  // namespace

// Makes normal sums out of terms.
class SumBuilder {
 public:
  // The terms of `sum` in order, without equals or zeros. Sets its hash.
  static SymExpr FromNormal(std::shared_ptr<Sum> sum) {
    const Terms& terms = sum->terms;
    if (terms.empty()) return SymExpr(0);
    if (terms.size() == 1 && terms[0].atoms.empty()) {
      return SymExpr(terms[0].coefficient);
    }
    sum->hash = HashOf(terms);
    SymExpr e;
    e.sum_ = std::move(sum);
    return e;
  }

  static SymExpr FromTerms(Terms terms) {
    if (terms.empty()) return SymExpr(0);
    if (terms.size() == 1 &&
        (terms[0].atoms.empty() || terms[0].coefficient == 0)) {
      return SymExpr(terms[0].coefficient);
    }
    auto sum = std::make_shared<Sum>();
    if (terms.size() == 1) {
      sum->terms = std::move(terms);
      return FromNormal(std::move(sum));
    }
    std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
      return CompareProducts(a, b) < 0;
    });
    Terms& normal = sum->terms;
    for (Term& term : terms) {
      if (!normal.empty() && CompareProducts(normal.back(), term) == 0) {
        normal.back().coefficient =
            WrappedAdd(normal.back().coefficient, term.coefficient);
      } else {
        if (!normal.empty() && normal.back().coefficient == 0)
          normal.pop_back();
        normal.push_back(std::move(term));
      }
    }
    if (!normal.empty() && normal.back().coefficient == 0) normal.pop_back();
    return FromNormal(std::move(sum));
  }

  static SymExpr FromAtom(Atom atom) {
    auto sum = std::make_shared<Sum>();
    Term& term = sum->terms.emplace_back();
    term.coefficient = 1;
    term.atoms.push_back(std::move(atom));
    return FromNormal(std::move(sum));
  }

  // `e` is not a constant, `factor` is not 0.
  static SymExpr Scaled(const SymExpr& e, int64_t factor) {
    auto sum = std::make_shared<Sum>(e.sum());
    for (Term& term : sum->terms) {
      term.coefficient = WrappedMul(term.coefficient, factor);
    }
    return FromNormal(std::move(sum));
  }

  static uint64_t HashOf(const SymExpr& e) { return e.StructuralHash(); }

 private:
  static uint64_t HashOf(const Terms& terms) {
    uint64_t h = terms.size();
    for (const Term& term : terms) {
      h = Mix(h, static_cast<uint64_t>(term.coefficient));
      for (const Atom& atom : term.atoms) {
        if (atom.is_var()) {
          h = Mix(
              h, (static_cast<uint64_t>(atom.var.kind) << 32) | atom.var.index);
        } else {
          h = Mix(h, 0x100 + static_cast<uint64_t>(atom.op));
          h = Mix(h, HashOf(atom.operands->first));
          h = Mix(h, HashOf(atom.operands->second));
        }
      }
    }
    return h;
  }
};

namespace {

SymExpr Variable(Var var) {
  Atom atom;
  atom.var = var;
  atom.op = SymOp::kFloorDiv;
  return SumBuilder::FromAtom(std::move(atom));
}

std::vector<SymExpr> Variables(Var::Kind kind, uint32_t count) {
  std::vector<SymExpr> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(Variable({kind, i}));
  return out;
}

}  // namespace

SymExpr SymExprFromTerms(Terms terms) {
  return SumBuilder::FromTerms(std::move(terms));
}

SymExpr SymExprOfOperation(SymOp op, SymExpr left, SymExpr right) {
  Atom atom;
  atom.var = {};
  atom.op = op;
  atom.operands = std::make_shared<const std::pair<SymExpr, SymExpr>>(
      std::move(left), std::move(right));
  return SumBuilder::FromAtom(std::move(atom));
}

SymExpr SymExprOfAtom(const Atom& atom) {
  return atom.is_var() ? SymExpr::Of(atom.var) : SumBuilder::FromAtom(atom);
}

SymExpr SymExpr::Of(Var var) {
  // Nests have few axes and graphs few symbols, and every index names them.
  constexpr uint32_t kFew = 16;
  static const auto* const few_axes =
      new std::vector<SymExpr>(Variables(Var::Kind::kAxis, kFew));
  static const auto* const few_symbols =
      new std::vector<SymExpr>(Variables(Var::Kind::kSymbol, kFew));
  if (var.index < kFew && var.kind == Var::Kind::kAxis) {
    return (*few_axes)[var.index];
  }
  if (var.index < kFew && var.kind == Var::Kind::kSymbol) {
    return (*few_symbols)[var.index];
  }
  return Variable(var);
}

bool SymExpr::AsVar(Var* var) const {
  if (is_constant() || sum_->terms.size() != 1) return false;
  const Term& term = sum_->terms[0];
  if (term.coefficient != 1 || term.atoms.size() != 1 ||
      !term.atoms[0].is_var()) {
    return false;
  }
  *var = term.atoms[0].var;
  return true;
}

void SymExpr::VisitVars(absl::FunctionRef<void(Var)> visit) const {
  if (is_constant()) return;
  for (const Term& term : sum_->terms) {
    for (const Atom& atom : term.atoms) {
      if (atom.is_var()) {
        visit(atom.var);
      } else {
        atom.operands->first.VisitVars(visit);
        atom.operands->second.VisitVars(visit);
      }
    }
  }
}

bool SymExpr::DependsOn(Var var) const {
  bool found = false;
  VisitVars([&](Var v) { found = found || v == var; });
  return found;
}

SymExpr SymExpr::Substitute(absl::FunctionRef<SymExpr(Var)> value_of) const {
  if (is_constant()) return *this;
  Terms all;
  for (const Term& term : sum_->terms) {
    SymExpr product = term.coefficient;
    for (const Atom& atom : term.atoms) {
      product =
          product *
          (atom.is_var()
               ? value_of(atom.var)
               : ApplySymOp(atom.op, atom.operands->first.Substitute(value_of),
                            atom.operands->second.Substitute(value_of)));
    }
    if (sum_->terms.size() == 1) return product;
    const TermList terms(product);
    all.insert(all.end(), terms.begin(), terms.end());
  }
  return SumBuilder::FromTerms(std::move(all));
}

int64_t SymExpr::Evaluate(absl::FunctionRef<int64_t(Var)> value_of) const {
  if (is_constant()) return value_;
  int64_t total = 0;
  for (const Term& term : sum_->terms) {
    int64_t product = term.coefficient;
    for (const Atom& atom : term.atoms) {
      product = WrappedMul(
          product,
          atom.is_var()
              ? value_of(atom.var)
              : ApplySymOp(atom.op, atom.operands->first.Evaluate(value_of),
                           atom.operands->second.Evaluate(value_of)));
    }
    total = WrappedAdd(total, product);
  }
  return total;
}

SymExpr operator+(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    return WrappedAdd(a.value_, b.value_);
  }
  if (a.Is(0)) return b;
  if (b.Is(0)) return a;
  if (a.is_constant()) return b + a;
  auto total = std::make_shared<Sum>();
  Terms& merged = total->terms;
  const TermList left(a), right(b);
  merged.reserve(left.size() + right.size());
  size_t i = 0, j = 0;
  while (i < left.size() && j < right.size()) {
    const int c = CompareProducts(left[i], right[j]);
    if (c < 0) {
      merged.push_back(left[i++]);
    } else if (c > 0) {
      merged.push_back(right[j++]);
    } else {
      const int64_t sum = WrappedAdd(left[i].coefficient, right[j].coefficient);
      if (sum != 0) merged.push_back({sum, left[i].atoms});
      ++i, ++j;
    }
  }
  for (; i < left.size(); ++i) merged.push_back(left[i]);
  for (; j < right.size(); ++j) merged.push_back(right[j]);
  return SumBuilder::FromNormal(std::move(total));
}

SymExpr operator-(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    return WrappedAdd(a.value_, WrappedMul(b.value_, -1));
  }
  return a + b * -1;
}

SymExpr operator*(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    return WrappedMul(a.value_, b.value_);
  }
  if (a.is_constant()) return b * a;
  if (b.Is(1)) return a;
  if (b.Is(0)) return 0;
  if (b.is_constant()) return SumBuilder::Scaled(a, b.constant());
  Terms products;
  for (const Term& x : a.sum().terms) {
    for (const Term& y : b.sum().terms) {
      Term product;
      product.coefficient = WrappedMul(x.coefficient, y.coefficient);
      product.atoms.resize(x.atoms.size() + y.atoms.size());
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(),
                 product.atoms.begin(), [](const Atom& l, const Atom& r) {
                   return CompareAtoms(l, r) < 0;
                 });
      products.push_back(std::move(product));
    }
  }
  return SumBuilder::FromTerms(std::move(products));
}

bool SymExpr::EqualSums(const SymExpr& a, const SymExpr& b) {
  if (a.sum_->hash != b.sum_->hash) return false;
  const auto& left = a.sum_->terms;
  const auto& right = b.sum_->terms;
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].coefficient != right[i].coefficient ||
        CompareProducts(left[i], right[i]) != 0) {
      return false;
    }
  }
  return true;
}

bool operator<(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() != b.is_constant()) return a.is_constant();
  if (a.is_constant()) return a.value_ < b.value_;
  if (a.sum_ == b.sum_) return false;
  const auto& left = a.sum_->terms;
  const auto& right = b.sum_->terms;
  const size_t n = std::min(left.size(), right.size());
  for (size_t i = 0; i < n; ++i) {
    const int c = CompareProducts(left[i], right[i]);
    if (c != 0) return c < 0;
    if (left[i].coefficient != right[i].coefficient) {
      return left[i].coefficient < right[i].coefficient;
    }
  }
  return left.size() < right.size();
}

uint64_t SymExpr::StructuralHash() const {
  return is_constant() ? Mix(0x51ed, static_cast<uint64_t>(value_))
                       : sum_->hash;
}

SymExpr Product(const DimVector& dims) {
  SymExpr product = 1;
  for (const SymExpr& dim : dims) product = product * dim;
  return product;
}

SymExpr SpanElements(const DimVector& sizes, const DimVector& strides) {
  SymExpr span = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].Is(0)) return 0;
    span += (sizes[d] - 1) * strides[d];
  }
  return span;
}

bool DivideTerm(const Term& term, const Term& divisor, Term* quotient) {
  if (divisor.coefficient == 0 || term.coefficient % divisor.coefficient != 0) {
    return false;
  }
  Term left;
  left.coefficient = term.coefficient / divisor.coefficient;
  size_t j = 0;
  for (const Atom& atom : term.atoms) {
    if (j < divisor.atoms.size() && CompareAtoms(atom, divisor.atoms[j]) == 0) {
      ++j;
    } else {
      left.atoms.push_back(atom);
    }
  }
  if (j != divisor.atoms.size()) return false;
  *quotient = std::move(left);
  return true;
}

bool SameAtom(const Atom& a, const Atom& b) { return CompareAtoms(a, b) == 0; }

}  // namespace kiln
