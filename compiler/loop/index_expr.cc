#include "compiler/loop/index_expr.h"

#include <algorithm>

#include "compiler/sym/sym_simplify.h"

namespace kiln {

namespace {

bool HasOpaque(const SymExpr& e) {
  if (e.is_constant()) return false;
  for (const SymExpr::Term& term : e.sum().terms) {
    for (const SymExpr::Atom& atom : term.atoms) {
      if (!atom.is_var()) return true;
    }
  }
  return false;
}

SymExpr Rebuild(SymOp op, const SymExpr& left, const SymExpr& right) {
  switch (op) {
    case SymOp::kFloorDiv:
      return FloorDiv(left, right);
    case SymOp::kMod:
      return Mod(left, right);
    case SymOp::kMin:
      return Min(left, right);
    case SymOp::kMax:
      return Max(left, right);
  }
  return 0;
}

}  // namespace

SymExpr SimplifyIndex(const SymExpr& e, absl::Span<const SymExpr> extents,
                      const ShapeEnv& shapes) {
  return HasOpaque(e) ? Simplify(e, {shapes, extents}) : e;
}

SymExpr LinearForm::CoefficientOf(uint32_t axis) const {
  for (const auto& [other, coefficient] : terms) {
    if (other == axis) return coefficient;
  }
  return 0;
}

std::optional<LinearForm> AsLinear(const SymExpr& e) {
  LinearForm form;
  if (e.is_constant()) {
    form.offset = e;
    return form;
  }
  Var var;
  if (e.AsVar(&var) && var.kind == Var::Kind::kAxis) {
    form.terms.push_back({var.index, 1});
    return form;
  }
  for (const SymExpr::Term& term : e.sum().terms) {
    std::optional<uint32_t> axis;
    SymExpr coefficient = term.coefficient;
    for (const SymExpr::Atom& atom : term.atoms) {
      if (atom.is_var() && atom.var.kind == Var::Kind::kAxis) {
        if (axis.has_value()) return std::nullopt;
        axis = atom.var.index;
      } else if (atom.is_var()) {
        if (atom.var.kind == Var::Kind::kIndirect) return std::nullopt;
        coefficient *= SymExpr::Of(atom.var);
      } else {
        bool symbols_only = true;
        for (const SymExpr* side :
             {&atom.operands->first, &atom.operands->second}) {
          side->VisitVars(
              [&](Var v) { symbols_only &= v.kind == Var::Kind::kSymbol; });
        }
        if (!symbols_only) return std::nullopt;
        coefficient *=
            Rebuild(atom.op, atom.operands->first, atom.operands->second);
      }
    }
    if (!axis.has_value()) {
      form.offset += coefficient;
      continue;
    }
    auto at = std::lower_bound(
        form.terms.begin(), form.terms.end(), *axis,
        [](const auto& entry, uint32_t a) { return entry.first < a; });
    if (at != form.terms.end() && at->first == *axis) {
      at->second += coefficient;
    } else {
      form.terms.insert(at, {*axis, coefficient});
    }
  }
  form.terms.erase(
      std::remove_if(form.terms.begin(), form.terms.end(),
                     [](const auto& entry) { return entry.second.Is(0); }),
      form.terms.end());
  return form;
}

namespace {

void AddTerm(LinearForm& form, uint32_t axis, const SymExpr& coefficient) {
  auto at = std::lower_bound(
      form.terms.begin(), form.terms.end(), axis,
      [](const auto& entry, uint32_t a) { return entry.first < a; });
  if (at != form.terms.end() && at->first == axis) {
    at->second += coefficient;
  } else {
    form.terms.insert(at, {axis, coefficient});
  }
}

}  // namespace

SymExpr ElementAt(const DimVector& index, const DimVector& strides) {
  SymExpr address = 0;
  for (size_t d = 0; d < index.size(); ++d) address += index[d] * strides[d];
  return address;
}

std::optional<LinearForm> AddressOf(const DimVector& index,
                                    const DimVector& strides) {
  LinearForm address;
  for (size_t d = 0; d < index.size(); ++d) {
    Var var;
    if (index[d].is_constant()) {
      if (!index[d].Is(0)) address.offset += index[d] * strides[d];
    } else if (index[d].AsVar(&var) && var.kind == Var::Kind::kAxis) {
      if (!strides[d].Is(0)) AddTerm(address, var.index, strides[d]);
    } else {
      const auto form = AsLinear(index[d]);
      if (!form.has_value()) return std::nullopt;
      address.offset += form->offset * strides[d];
      for (const auto& [axis, coefficient] : form->terms) {
        const SymExpr weight = coefficient * strides[d];
        if (!weight.Is(0)) AddTerm(address, axis, weight);
      }
    }
  }
  return address;
}

std::optional<LinearForm> AddressOf(const DimVector& index,
                                    const DimVector& strides,
                                    absl::Span<const SymExpr> extents,
                                    const ShapeEnv& shapes) {
  return AsLinear(SimplifyIndex(ElementAt(index, strides), extents, shapes));
}

namespace {

// Appends the row-major index that `linear`, which is below the product of `sizes`, has
// in these sizes.
void AppendDigits(const SymExpr& linear, absl::Span<const SymExpr> sizes,
                  DimVector& digits) {
  SymExpr inner = 1;
  absl::InlinedVector<SymExpr, 4> weights(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    weights[d] = inner;
    inner *= sizes[d];
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    SymExpr digit = weights[d].Is(1) ? linear : FloorDiv(linear, weights[d]);
    if (d > 0) digit = Mod(digit, sizes[d]);
    digits.push_back(std::move(digit));
  }
}

bool Less(const SymExpr& a, const SymExpr& b, const ShapeEnv& shapes) {
  if (a.is_constant() && b.is_constant()) return a.constant() < b.constant();
  return shapes.Hint(a) < shapes.Hint(b);
}

}  // namespace

DimVector ReshapeIndex(const DimVector& from_index, const DimVector& from,
                       const DimVector& to, const ShapeEnv& shapes) {
  DimVector result;
  size_t i = 0, j = 0;
  while (j < to.size()) {
    if (to[j].Is(1)) {
      result.push_back(0);
      ++j;
      continue;
    }
    while (i < from.size() && from[i].Is(1)) ++i;
    if (i == from.size()) {  // sizes do not agree, which a guard reports
      result.push_back(0);
      ++j;
      continue;
    }
    // The smallest group of dimensions with equal products.
    const size_t i0 = i, j0 = j;
    SymExpr left = from[i++], right = to[j++];
    while (!(left == right)) {
      if (i < from.size() && (Less(left, right, shapes) || j == to.size())) {
        left *= from[i++];
      } else if (j < to.size()) {
        right *= to[j++];
      } else {
        break;
      }
    }
    SymExpr linear = 0;
    for (size_t d = i0; d < i; ++d) linear = linear * from[d] + from_index[d];
    AppendDigits(linear, absl::MakeSpan(to).subspan(j0, j - j0), result);
  }
  return result;
}

bool DependsOnAxesFrom(const SymExpr& e, uint32_t first) {
  if (e.is_constant()) return false;
  bool found = false;
  e.VisitVars(
      [&](Var v) { found |= v.kind == Var::Kind::kAxis && v.index >= first; });
  return found;
}

bool HasIndirect(const SymExpr& e) {
  if (e.is_constant()) return false;
  Var var;
  if (e.AsVar(&var)) return var.kind == Var::Kind::kIndirect;
  bool found = false;
  e.VisitVars([&](Var v) { found |= v.kind == Var::Kind::kIndirect; });
  return found;
}

std::optional<SymExpr> ExactQuotient(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    if (b.constant() == 0 || a.constant() % b.constant() != 0) {
      return std::nullopt;
    }
    return a.constant() / b.constant();
  }
  if (b.Is(0)) return std::nullopt;
  const SymExpr quotient = FloorDiv(a, b);
  if (!(quotient * b == a)) return std::nullopt;
  return quotient;
}

}  // namespace kiln
