// Division, remainder, minimum and maximum of SymExpr.

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/sym/sym_arith.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {
namespace {

using Term = SymExpr::Term;
using Terms = SymExpr::Terms;

struct Split {
  SymExpr quotient;
  SymExpr rest;
};

// a = quotient * divisor + rest, term by term; of the constant term all
// multiples of a positive constant divisor are taken.
Split SplitByTerm(const SymExpr& a, const Term& divisor) {
  Terms quotient, rest;
  for (const Term& term : TermList(a)) {
    Term q;
    if (DivideTerm(term, divisor, &q)) {
      quotient.push_back(std::move(q));
    } else if (term.atoms.empty() && divisor.atoms.empty()) {
      quotient.push_back(
          {FloorDivInts(term.coefficient, divisor.coefficient), {}});
      rest.push_back({ModInts(term.coefficient, divisor.coefficient), {}});
    } else {
      rest.push_back(term);
    }
  }
  return {SymExprFromTerms(std::move(quotient)),
          SymExprFromTerms(std::move(rest))};
}

// Exact division by a sum of several terms, by its first term; rest 0 or the
// whole of `a`.
Split SplitBySum(const SymExpr& a, const SymExpr& b) {
  const Term& lead = b.sum().terms[0];
  SymExpr quotient = 0;
  SymExpr rest = a;
  for (int steps = 0; steps < 16 && !rest.Is(0); ++steps) {
    bool divided = false;
    for (const Term& term : TermList(rest)) {
      Term q;
      if (!DivideTerm(term, lead, &q)) continue;
      const SymExpr part = SymExprFromTerms({q});
      quotient += part;
      rest = rest - part * b;
      divided = true;
      break;
    }
    if (!divided) break;
  }
  return rest.Is(0) ? Split{quotient, 0} : Split{0, a};
}

Split SplitBy(const SymExpr& a, const SymExpr& b) {
  const TermList divisor(b);
  return divisor.size() == 1 ? SplitByTerm(a, divisor[0]) : SplitBySum(a, b);
}

// The greatest common divisor of `c` and the coefficients of all terms that
// hold a variable.
int64_t CommonCoefficient(const SymExpr& e, int64_t c) {
  int64_t g = c;
  for (const Term& term : TermList(e)) {
    if (!term.atoms.empty()) g = std::gcd(g, term.coefficient);
  }
  return g;
}

// The one operation `op` that `e` consists of, plus a constant; else null.
const SymExpr::Atom* OnlyOperation(const SymExpr& e, SymOp op,
                                   int64_t* constant) {
  if (e.is_constant() || e.sum().terms.size() > 2) return nullptr;
  const Terms& terms = e.sum().terms;
  *constant = 0;
  if (terms.size() == 2) {
    if (!terms[1].atoms.empty()) return nullptr;
    *constant = terms[1].coefficient;
  }
  if (terms[0].coefficient != 1 || terms[0].atoms.size() != 1) return nullptr;
  const SymExpr::Atom& atom = terms[0].atoms[0];
  return !atom.is_var() && atom.op == op ? &atom : nullptr;
}

SymExpr FloorDivByConstant(const SymExpr& rest, int64_t c) {
  const int64_t g = CommonCoefficient(rest, c);
  if (g > 1) {  // (g*x + k) // (g*d) = (x + k // g) // d
    return FloorDiv(SplitByTerm(rest, {g, {}}).quotient, c / g);
  }
  int64_t k = 0;
  const SymExpr::Atom* inner = OnlyOperation(rest, SymOp::kFloorDiv, &k);
  if (inner != nullptr && inner->operands->second.is_constant() &&
      inner->operands->second.constant() > 0) {
    // (x // d + k) // c = (x + k*d) // (c*d)
    const int64_t d = inner->operands->second.constant();
    return FloorDiv(inner->operands->first + WrappedMul(k, d),
                    WrappedMul(c, d));
  }
  return SymExprOfOperation(SymOp::kFloorDiv, rest, c);
}

// The product of the atoms that all terms of both share: what a fraction may
// be shortened by.
Term CommonAtoms(const SymExpr& a, const SymExpr& b) {
  Term common{1, {}};
  const TermList all_a(a), all_b(b);
  for (const SymExpr::Atom& atom : all_b[0].atoms) {
    Term longer = common;
    longer.atoms.push_back(atom);
    Term q;
    const auto divides = [&](const Term& t) {
      return DivideTerm(t, longer, &q);
    };
    if (std::all_of(all_a.begin(), all_a.end(), divides) &&
        std::all_of(all_b.begin(), all_b.end(), divides)) {
      common = std::move(longer);
    }
  }
  return common;
}

// coefficient * (x % d) is coefficient * x where c divides coefficient * d.
SymExpr DropInnerMods(const SymExpr& e, int64_t c) {
  const TermList terms(e);
  const auto drops = [&](const Term& term, const SymExpr::Atom& atom) {
    return !atom.is_var() && atom.op == SymOp::kMod &&
           atom.operands->second.is_constant() &&
           WrappedMul(term.coefficient, atom.operands->second.constant()) % c ==
               0;
  };
  const bool any =
      std::any_of(terms.begin(), terms.end(), [&](const Term& term) {
        return std::any_of(
            term.atoms.begin(), term.atoms.end(),
            [&](const SymExpr::Atom& atom) { return drops(term, atom); });
      });
  if (!any) return e;
  SymExpr total = 0;
  for (const Term& term : terms) {
    SymExpr product = term.coefficient;
    for (const SymExpr::Atom& atom : term.atoms) {
      product = product * (drops(term, atom) ? atom.operands->first
                                             : SymExprOfAtom(atom));
    }
    total += product;
  }
  // What stood inside may hold another.
  return DropInnerMods(total, c);
}

SymExpr ModByConstant(const SymExpr& a, int64_t c) {
  const SymExpr whole = DropInnerMods(a, c);
  const TermList terms(whole);
  Terms reduced(terms.begin(), terms.end());
  for (Term& term : reduced) {
    term.coefficient = term.atoms.empty() ? ModInts(term.coefficient, c)
                                          : term.coefficient % c;
  }
  reduced.erase(
      std::remove_if(reduced.begin(), reduced.end(),
                     [](const Term& t) { return t.coefficient == 0; }),
      reduced.end());
  const SymExpr rest = SymExprFromTerms(std::move(reduced));
  if (rest.is_constant()) return ModInts(rest.constant(), c);
  const int64_t g = CommonCoefficient(rest, c);
  if (g > 1) {  // (g*x + k) % (g*d) = g * ((x + k // g) % d) + k % g
    const Split split = SplitByTerm(rest, {g, {}});
    return Mod(split.quotient, c / g) * g + split.rest;
  }
  return SymExprOfOperation(SymOp::kMod, rest, c);
}

// Min and Max: `keep_left` when the left operand minus the right is `d`.
SymExpr MinOrMax(SymOp op, const SymExpr& a, const SymExpr& b) {
  const SymExpr difference = a - b;
  if (difference.is_constant()) {
    const bool left_is_less = difference.constant() <= 0;
    return left_is_less == (op == SymOp::kMin) ? a : b;
  }
  // Operands in order: min(a, b) is min(b, a).
  return a < b ? SymExprOfOperation(op, a, b) : SymExprOfOperation(op, b, a);
}

}  // namespace

int64_t ApplySymOp(SymOp op, int64_t a, int64_t b) {
  switch (op) {
    case SymOp::kFloorDiv:
      return FloorDivInts(a, b);
    case SymOp::kMod:
      return ModInts(a, b);
    case SymOp::kMin:
      return std::min(a, b);
    case SymOp::kMax:
      return std::max(a, b);
  }
  return 0;
}

SymExpr ApplySymOp(SymOp op, const SymExpr& a, const SymExpr& b) {
  switch (op) {
    case SymOp::kFloorDiv:
      return FloorDiv(a, b);
    case SymOp::kMod:
      return Mod(a, b);
    case SymOp::kMin:
      return Min(a, b);
    case SymOp::kMax:
      return Max(a, b);
  }
  return 0;
}

SymExpr FloorDiv(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    return FloorDivInts(a.constant(), b.constant());
  }
  if (b.Is(1) || a.Is(0)) return a;
  if (b.Is(0)) return 0;
  if (b.is_constant() && b.constant() < 0) return FloorDiv(a * -1, b * -1);
  const Split split = SplitBy(a, b);
  if (split.rest.Is(0)) return split.quotient;
  if (b.is_constant()) {
    if (split.rest.is_constant()) return split.quotient;  // below the divisor
    return split.quotient + FloorDivByConstant(split.rest, b.constant());
  }
  const Term common = CommonAtoms(split.rest, b);
  if (!common.atoms.empty()) {
    return split.quotient + FloorDiv(SplitByTerm(split.rest, common).quotient,
                                     SplitByTerm(b, common).quotient);
  }
  return split.quotient + SymExprOfOperation(SymOp::kFloorDiv, split.rest, b);
}

SymExpr Mod(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    return ModInts(a.constant(), b.constant());
  }
  if (b.Is(1) || a.Is(0) || b.Is(0)) return 0;
  if (b.is_constant() && b.constant() > 0) {
    return ModByConstant(a, b.constant());
  }
  const SymExpr rest = SplitBy(a, b).rest;
  if (rest.Is(0)) return 0;
  return SymExprOfOperation(SymOp::kMod, rest, b);
}

SymExpr CeilDiv(const SymExpr& a, const SymExpr& b) {
  // For symbols the negated form takes multiples out; for numbers the usual
  // one reads better.
  if (b.is_constant() && b.constant() > 0) return FloorDiv(a + b - 1, b);
  return FloorDiv(a * -1, b) * -1;
}

SymExpr Min(const SymExpr& a, const SymExpr& b) {
  return MinOrMax(SymOp::kMin, a, b);
}
SymExpr Max(const SymExpr& a, const SymExpr& b) {
  return MinOrMax(SymOp::kMax, a, b);
}

}  // namespace kiln
