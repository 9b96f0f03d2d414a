#include "compiler/sym/sym_simplify.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "compiler/sym/sym_arith.h"

namespace kiln {
namespace {

using Atom = SymExpr::Atom;
using Term = SymExpr::Term;
using Terms = SymExpr::Terms;

// The extent of a variable that runs over [0, extent); null when not known.
const SymExpr* ExtentOf(Var var, const SymBounds& bounds) {
  switch (var.kind) {
    case Var::Kind::kSymbol:
      return nullptr;
    case Var::Kind::kAxis:
      return var.index < bounds.axis_extents.size()
                 ? &bounds.axis_extents[var.index]
                 : nullptr;
    case Var::Kind::kIndirect:
      return var.index < bounds.indirect_extents.size()
                 ? &bounds.indirect_extents[var.index]
                 : nullptr;
  }
  return nullptr;
}

ValueRange RangeOfVar(Var var, const SymBounds& bounds) {
  if (var.kind == Var::Kind::kSymbol) {
    return var.index < bounds.shapes.symbols.size()
               ? bounds.shapes.symbols[var.index].range
               : ValueRange{};
  }
  const SymExpr* extent = ExtentOf(var, bounds);
  if (extent == nullptr) return {};
  const int64_t last = bounds.shapes.Range(*extent).max - 1;
  return {0, std::max<int64_t>(last, 0)};
}

// The factor of `var` in `e`, and what is left; false when `var` also stands
// in a power or inside an operation.
bool TakeLinear(const SymExpr& e, Var var, SymExpr* factor, SymExpr* rest) {
  Terms with, without;
  for (const Term& term : TermList(e)) {
    Term other{term.coefficient, {}};
    int times = 0;
    for (const Atom& atom : term.atoms) {
      if (atom.is_var() && atom.var == var) {
        ++times;
      } else if (!atom.is_var() && SymExprOfAtom(atom).DependsOn(var)) {
        return false;
      } else {
        other.atoms.push_back(atom);
      }
    }
    if (times > 1) return false;
    (times == 1 ? with : without).push_back(std::move(other));
  }
  *factor = SymExprFromTerms(std::move(with));
  *rest = SymExprFromTerms(std::move(without));
  return true;
}

absl::InlinedVector<Var, 4> BoundedVarsOf(const SymExpr& e,
                                          const SymBounds& bounds) {
  absl::InlinedVector<Var, 4> vars;
  e.VisitVars([&](Var var) {
    if (ExtentOf(var, bounds) != nullptr &&
        std::find(vars.begin(), vars.end(), var) == vars.end()) {
      vars.push_back(var);
    }
  });
  return vars;
}

// Whether the range of `e` is that of some symbol.
bool RestsOnSymbols(const SymExpr& e, const SymBounds& bounds) {
  bool rests = false;
  e.VisitVars([&](Var var) {
    const SymExpr* extent = ExtentOf(var, bounds);
    rests = rests || extent == nullptr || !extent->is_constant();
  });
  return rests;
}

// How many operations stand in `e`, nested ones included.
int Operations(const SymExpr& e) {
  if (e.is_constant()) return 0;
  int count = 0;
  for (const Term& term : e.sum().terms) {
    for (const Atom& atom : term.atoms) {
      if (atom.is_var()) continue;
      count += 1 + Operations(atom.operands->first) +
               Operations(atom.operands->second);
    }
  }
  return count;
}

// e = multiples * g + rest, by terms whose coefficient g divides.
void SplitByNumber(const SymExpr& e, int64_t g, SymExpr* multiples,
                   SymExpr* rest) {
  Terms divided, left;
  for (Term term : TermList(e)) {
    if (term.coefficient % g == 0) {
      term.coefficient /= g;
      divided.push_back(std::move(term));
    } else {
      left.push_back(std::move(term));
    }
  }
  *multiples = SymExprFromTerms(std::move(divided));
  *rest = SymExprFromTerms(std::move(left));
}

// A divisor g of c such that e = g*x + y with 0 <= y < g, y not 0; the largest
// such coefficient of e. 0: none.
int64_t SeparatingFactor(const SymExpr& e, int64_t c, const SymBounds& bounds,
                         SymExpr* multiples, SymExpr* rest) {
  int64_t best = 0;
  for (const Term& term : TermList(e)) {
    const int64_t g = std::llabs(term.coefficient);
    if (term.atoms.empty() || g <= best || g <= 1 || c % g != 0) continue;
    SymExpr x, y;
    SplitByNumber(e, g, &x, &y);
    if (y.Is(0)) continue;
    const ValueRange range = RangeWithin(y, bounds);
    if (range.min < 0 || range.max >= g) continue;
    best = g;
    *multiples = std::move(x);
    *rest = std::move(y);
  }
  return best;
}

// The atom of a term that is a multiple of one operation `op`; null if it is not.
const Atom* LoneOperation(const Term& term, SymOp op) {
  if (term.atoms.size() != 1) return nullptr;
  const Atom& atom = term.atoms[0];
  return !atom.is_var() && atom.op == op ? &atom : nullptr;
}

bool WithinDivisor(const SymExpr& x, const SymExpr& divisor,
                   const SymBounds& bounds) {
  if (divisor.is_constant()) {
    const ValueRange range = RangeWithin(x, bounds);
    if (range.min >= 0 && range.max < divisor.constant()) return true;
    // Numbers alone: what follows would find the same range again.
    if (!RestsOnSymbols(x, bounds)) return false;
  }
  return ProveNonNegative(x, bounds) && ProveLt(x, divisor, bounds);
}

SymExpr SimplifyFloorDiv(const Atom& atom, const SymBounds& bounds) {
  const auto& [x, divisor] = *atom.operands;
  if (WithinDivisor(x, divisor, bounds)) return 0;
  if (divisor.is_constant() && divisor.constant() > 0) {
    const int64_t c = divisor.constant();
    const ValueRange range = RangeWithin(x, bounds);
    const int64_t low = FloorDivInts(range.min, c);
    if (low == FloorDivInts(range.max, c)) return low;
    SymExpr multiples, rest;
    if (const int64_t g = SeparatingFactor(x, c, bounds, &multiples, &rest);
        g > 1) {
      return Simplify(FloorDiv(multiples, c / g), bounds);
    }
  }
  return SymExprOfAtom(atom);
}

SymExpr SimplifyMod(const Atom& atom, const SymBounds& bounds) {
  const auto& [x, divisor] = *atom.operands;
  if (WithinDivisor(x, divisor, bounds)) return x;
  if (divisor.is_constant() && divisor.constant() > 0) {
    const int64_t c = divisor.constant();
    const ValueRange range = RangeWithin(x, bounds);
    const int64_t low = FloorDivInts(range.min, c);
    if (low == FloorDivInts(range.max, c)) return x - WrappedMul(low, c);
    SymExpr multiples, rest;
    if (const int64_t g = SeparatingFactor(x, c, bounds, &multiples, &rest);
        g > 1) {
      return Simplify(Mod(multiples, c / g), bounds) * g + rest;
    }
  }
  return SymExprOfAtom(atom);
}

// The rules on one operation whose operands are simple already. Generic rules
// first: they may leave a sum with the operation as one of its terms.
SymExpr SimplifyOperation(SymOp op, const SymExpr& a, const SymExpr& b,
                          const SymBounds& bounds) {
  if (op == SymOp::kMin || op == SymOp::kMax) {
    const SymExpr& low = op == SymOp::kMin ? a : b;
    const SymExpr& high = op == SymOp::kMin ? b : a;
    if (ProveNonNegative(b - a, bounds)) return low;
    if (ProveNonNegative(a - b, bounds)) return high;
    return ApplySymOp(op, a, b);
  }
  const SymExpr generic = ApplySymOp(op, a, b);
  if (generic.is_constant()) return generic;
  SymExpr total = 0;
  for (const Term& term : generic.sum().terms) {
    const Atom* operation = LoneOperation(term, op);
    if (operation == nullptr) {
      total += SymExprFromTerms({term});
    } else if (op == SymOp::kFloorDiv) {
      total += SimplifyFloorDiv(*operation, bounds) * term.coefficient;
    } else {
      total += SimplifyMod(*operation, bounds) * term.coefficient;
    }
  }
  return total;
}

// term / its atom `i`, times `replacement`.
SymExpr ReplaceAtom(const Term& term, size_t i, const SymExpr& replacement) {
  Term others{term.coefficient, {}};
  for (size_t k = 0; k < term.atoms.size(); ++k) {
    if (k != i) others.atoms.push_back(term.atoms[k]);
  }
  return SymExprFromTerms({std::move(others)}) * replacement;
}

bool HasFloorDiv(const SymExpr& e) {
  for (const Term& term : TermList(e)) {
    for (const Atom& atom : term.atoms)
      if (!atom.is_var() && atom.op == SymOp::kFloorDiv) return true;
  }
  return false;
}

// Whether `a` has no operation, or one that is also a term of `b`.
bool MayCancelWith(const SymExpr& a, const SymExpr& b) {
  bool any = false;
  for (const Term& term : TermList(a)) {
    if (std::all_of(term.atoms.begin(), term.atoms.end(),
                    [](const Atom& atom) { return atom.is_var(); })) {
      continue;
    }
    any = true;
    for (const Term& other : TermList(b)) {
      if (std::equal(term.atoms.begin(), term.atoms.end(), other.atoms.begin(),
                     other.atoms.end(), SameAtom)) {
        return true;
      }
    }
  }
  return !any;
}

// x % k becomes x - (x // k)*k where the floordiv then falls away.
bool JoinQuotientAndRest(SymExpr& e) {
  const int before = Operations(e);
  const bool has_floordiv = HasFloorDiv(e);
  for (const Term& term : TermList(e)) {
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      const Atom& atom = term.atoms[i];
      if (atom.is_var() || atom.op != SymOp::kMod) continue;
      const auto& [x, k] = *atom.operands;
      // Nothing can fall away: a floordiv would stand where the mod did.
      if (!has_floordiv && Operations(x) == 0 && Operations(k) == 0) continue;
      const SymExpr quotient = FloorDiv(x, k);
      if (k.is_constant() && Operations(x) == 0 && term.atoms.size() == 1 &&
          !MayCancelWith(quotient, e)) {
        continue;
      }
      const SymExpr whole = ReplaceAtom(term, i, x - quotient * k);
      const SymExpr joined = e - SymExprFromTerms({term}) + whole;
      if (Operations(joined) < before) {
        e = joined;
        return true;
      }
    }
  }
  return false;
}

// ((x // k) % m)*k + x % k becomes x % (k*m).
bool JoinRests(SymExpr& e) {
  const int before = Operations(e);
  if (before < 2) return false;
  for (const Term& term : TermList(e)) {
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      const Atom& low = term.atoms[i];
      if (low.is_var() || low.op != SymOp::kMod) continue;
      const auto& [x, k] = *low.operands;
      for (const Term& other : TermList(e)) {
        for (const Atom& high : other.atoms) {
          if (high.is_var() || high.op != SymOp::kMod) continue;
          const auto& [y, m] = *high.operands;
          if (y != FloorDiv(x, k)) continue;
          const SymExpr joined =
              e - SymExprFromTerms({term}) -
              ReplaceAtom(term, i, Mod(FloorDiv(x, k), m) * k) +
              ReplaceAtom(term, i, Mod(x, k * m));
          if (Operations(joined) < before) {
            e = joined;
            return true;
          }
        }
      }
    }
  }
  return false;
}

}  // namespace

ValueRange RangeWithin(const SymExpr& e, const SymBounds& bounds) {
  return BoundsOf(e, [&](Var var) { return RangeOfVar(var, bounds); });
}

bool ProveNonNegative(const SymExpr& e, const SymBounds& bounds) {
  if (e.is_constant()) return e.constant() >= 0;
  if (RangeWithin(e, bounds).min >= 0) return true;
  // Numbers alone: what follows would find the same range again.
  if (!RestsOnSymbols(e, bounds)) return false;
  // The least value over each variable it is linear in, as an expression.
  SymExpr least = e;
  for (const Var var : BoundedVarsOf(e, bounds)) {
    SymExpr factor, rest;
    if (!TakeLinear(least, var, &factor, &rest)) continue;
    const ValueRange range = RangeWithin(factor, bounds);
    if (range.min >= 0) {
      least = rest;
    } else if (range.max <= 0) {
      least = rest + factor * (*ExtentOf(var, bounds) - 1);
    }
  }
  return RangeWithin(least, bounds).min >= 0;
}

bool ProveLt(const SymExpr& a, const SymExpr& b, const SymBounds& bounds) {
  return ProveNonNegative(b - a - 1, bounds);
}

SymExpr Simplify(const SymExpr& e, const SymBounds& bounds) {
  if (e.is_constant() || Operations(e) == 0) {
    // An axis of extent 1 is 0.
    bool any = false;
    e.VisitVars([&](Var var) {
      const SymExpr* extent = ExtentOf(var, bounds);
      any = any || (extent != nullptr && extent->Is(1));
    });
    if (!any) return e;
  }
  const TermList terms(e);
  SymExpr total = 0;
  Terms all;
  for (const Term& term : terms) {
    SymExpr product = term.coefficient;
    for (const Atom& atom : term.atoms) {
      if (!atom.is_var()) {
        product =
            product *
            SimplifyOperation(atom.op, Simplify(atom.operands->first, bounds),
                              Simplify(atom.operands->second, bounds), bounds);
        continue;
      }
      const SymExpr* extent = ExtentOf(atom.var, bounds);
      product =
          product * (extent != nullptr && extent->Is(1) ? SymExpr(0)
                                                        : SymExprOfAtom(atom));
    }
    if (terms.size() == 1) {
      total = std::move(product);
    } else {
      const TermList parts(product);
      all.insert(all.end(), parts.begin(), parts.end());
    }
  }
  if (terms.size() > 1) total = SymExprFromTerms(std::move(all));
  while (JoinQuotientAndRest(total) || JoinRests(total)) {
  }
  return total;
}

}  // namespace kiln
