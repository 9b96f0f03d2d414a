#include "compiler/sym/value_range.h"

#include <algorithm>
#include <utility>

#include "compiler/sym/sym_arith.h"

namespace kiln {
namespace {

using Wide = __int128;

int64_t Saturate(Wide v) {
  if (v < ValueRange::kMin) return ValueRange::kMin;
  if (v > ValueRange::kMax) return ValueRange::kMax;
  return static_cast<int64_t>(v);
}

ValueRange Add(ValueRange a, ValueRange b) {
  return {Saturate(Wide{a.min} + b.min), Saturate(Wide{a.max} + b.max)};
}

ValueRange Multiply(ValueRange a, ValueRange b) {
  const Wide corners[] = {Wide{a.min} * b.min, Wide{a.min} * b.max,
                          Wide{a.max} * b.min, Wide{a.max} * b.max};
  return {Saturate(*std::min_element(corners, corners + 4)),
          Saturate(*std::max_element(corners, corners + 4))};
}

ValueRange FloorDivRange(ValueRange a, ValueRange b) {
  if (b.min <= 0) return {};
  const int64_t corners[] = {
      FloorDivInts(a.min, b.min), FloorDivInts(a.min, b.max),
      FloorDivInts(a.max, b.min), FloorDivInts(a.max, b.max)};
  return {*std::min_element(corners, corners + 4),
          *std::max_element(corners, corners + 4)};
}

ValueRange ModRange(ValueRange a, ValueRange b) {
  if (b.min <= 0) return {};
  if (b.min == b.max &&
      FloorDivInts(a.min, b.min) == FloorDivInts(a.max, b.min)) {
    return {ModInts(a.min, b.min), ModInts(a.max, b.min)};
  }
  if (a.min >= 0 && a.max < b.min) return a;
  return {0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1};
}

// What all terms of a sum have in common: x*y and 2*x share x.
SymExpr::Term CommonProduct(const SymExpr::Sum& sum) {
  SymExpr::Term common{1, {}};
  for (const SymExpr::Atom& atom : sum.terms[0].atoms) {
    SymExpr::Term longer = common;
    longer.atoms.push_back(atom);
    SymExpr::Term quotient;
    bool divides = true;
    for (const SymExpr::Term& term : sum.terms) {
      divides = divides && DivideTerm(term, longer, &quotient);
    }
    if (divides) common = std::move(longer);
  }
  return common;
}

ValueRange Intersect(ValueRange a, ValueRange b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max)};
}

ValueRange BoundsOfAtom(const SymExpr::Atom& atom,
                        absl::FunctionRef<ValueRange(Var)> range_of) {
  if (atom.is_var()) return range_of(atom.var);
  const ValueRange a = BoundsOf(atom.operands->first, range_of);
  const ValueRange b = BoundsOf(atom.operands->second, range_of);
  switch (atom.op) {
    case SymOp::kFloorDiv:
      return FloorDivRange(a, b);
    case SymOp::kMod:
      return ModRange(a, b);
    case SymOp::kMin:
      return {std::min(a.min, b.min), std::min(a.max, b.max)};
    case SymOp::kMax:
      return {std::max(a.min, b.min), std::max(a.max, b.max)};
  }
  return {};
}

ValueRange BoundsOfTerm(const SymExpr::Term& term,
                        absl::FunctionRef<ValueRange(Var)> range_of) {
  ValueRange product{Saturate(term.coefficient), Saturate(term.coefficient)};
  for (const SymExpr::Atom& atom : term.atoms) {
    product = Multiply(product, BoundsOfAtom(atom, range_of));
  }
  return product;
}

}  // namespace

ValueRange BoundsOf(const SymExpr& e,
                    absl::FunctionRef<ValueRange(Var)> range_of) {
  if (e.is_constant()) {
    return {Saturate(e.constant()), Saturate(e.constant())};
  }
  ValueRange total{0, 0};
  for (const SymExpr::Term& term : e.sum().terms) {
    total = Add(total, BoundsOfTerm(term, range_of));
  }
  if (e.sum().terms.size() < 2) return total;
  // x*y - x is x*(y - 1), whose bounds are tighter.
  const SymExpr::Term common = CommonProduct(e.sum());
  if (common.atoms.empty()) return total;
  SymExpr::Terms rest;
  for (const SymExpr::Term& term : e.sum().terms) {
    rest.emplace_back();
    DivideTerm(term, common, &rest.back());
  }
  return Intersect(total, Multiply(BoundsOfTerm(common, range_of),
                                   BoundsOf(SymExprFromTerms(rest), range_of)));
}

}  // namespace kiln
