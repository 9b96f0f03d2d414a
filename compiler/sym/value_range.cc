#include "compiler/sym/value_range.h"

#include <algorithm>

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

}  // namespace

ValueRange BoundsOf(const SymExpr& e,
                    absl::FunctionRef<ValueRange(Var)> range_of) {
  if (e.is_constant()) {
    return {Saturate(e.constant()), Saturate(e.constant())};
  }
  ValueRange total{0, 0};
  for (const SymExpr::Term& term : e.sum().terms) {
    ValueRange product{Saturate(term.coefficient), Saturate(term.coefficient)};
    for (const SymExpr::Atom& atom : term.atoms) {
      if (atom.is_var()) {
        product = Multiply(product, range_of(atom.var));
        continue;
      }
      const ValueRange a = BoundsOf(atom.operands->first, range_of);
      const ValueRange b = BoundsOf(atom.operands->second, range_of);
      ValueRange value;
      switch (atom.op) {
        case SymOp::kFloorDiv:
          value = FloorDivRange(a, b);
          break;
        case SymOp::kMod:
          value = ModRange(a, b);
          break;
        case SymOp::kMin:
          value = {std::min(a.min, b.min), std::min(a.max, b.max)};
          break;
        case SymOp::kMax:
          value = {std::max(a.min, b.min), std::max(a.max, b.max)};
          break;
      }
      product = Multiply(product, value);
    }
    total = Add(total, product);
  }
  return total;
}

}  // namespace kiln
