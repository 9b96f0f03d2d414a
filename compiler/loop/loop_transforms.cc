#include "compiler/loop/loop_transforms.h"

#include <optional>
#include <utility>

#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"

namespace kiln {

std::vector<SymExpr> ExtentsOf(const LoopNest& nest) {
  std::vector<SymExpr> extents;
  extents.reserve(nest.axes.size());
  for (const Axis& axis : nest.axes) extents.push_back(axis.extent);
  return extents;
}

uint32_t NumOuterAxes(const LoopNest& nest) {
  uint32_t n = 0;
  while (n < nest.axes.size() && !nest.axes[n].reduction) ++n;
  return n;
}

bool HasReduction(const LoopNest& nest) {
  return !nest.axes.empty() && nest.axes.back().reduction;
}

SymExpr PointCount(const LoopNest& nest) {
  SymExpr count = 1;
  for (const Axis& axis : nest.axes) count *= axis.extent;
  return count;
}

namespace {

template <typename Step>
void TakeOriginsOf(const LoopNest& from, Step& into) {
  for (const std::string& origin : from.origins) {
    if (std::find(into.origins.begin(), into.origins.end(), origin) ==
        into.origins.end()) {
      into.origins.push_back(origin);
    }
  }
  std::vector<uint32_t> all;
  all.reserve(into.client_nodes.size() + from.client_nodes.size());
  std::set_union(into.client_nodes.begin(), into.client_nodes.end(),
                 from.client_nodes.begin(), from.client_nodes.end(),
                 std::back_inserter(all));
  into.client_nodes = std::move(all);
}

}  // namespace

void TakeOrigins(const LoopNest& from, LoopNest& into) {
  TakeOriginsOf(from, into);
}
void TakeOrigins(const LoopNest& from, Contraction& into) {
  TakeOriginsOf(from, into);
}

LoopNest ReplaceAxes(const LoopNest& nest, std::vector<Axis> axes,
                     absl::Span<const SymExpr> values, const ShapeEnv& shapes) {
  LoopNest result;
  TakeOrigins(nest, result);
  result.inlined = nest.inlined;
  result.merged = nest.merged;
  result.axes = std::move(axes);
  const std::vector<SymExpr> extents = ExtentsOf(result);
  BodyBuilder body;
  body.Reserve(nest.body.size());
  std::vector<ScalarId> ids(nest.body.size());
  const auto rewrite = [&](const SymExpr& index) {
    return SimplifyIndex(RewriteIndex(index, values, ids, body), extents,
                         shapes);
  };
  for (ScalarId i = 0; i < nest.body.size(); ++i) {
    ScalarNode node = nest.body[i];
    for (ScalarId& arg : node.args) arg = ids[arg];
    for (SymExpr& index : node.index) index = rewrite(index);
    ids[i] = node.op == ScalarOp::kIndex ? body.Index(node.index[0], node.dtype)
                                         : body.Add(std::move(node));
  }
  for (const Store& old : nest.stores) {
    Store store = old;
    store.value = ids[old.value];
    if (old.mask != Store::kNoMask) store.mask = ids[old.mask];
    for (SymExpr& index : store.index) index = rewrite(index);
    result.stores.push_back(std::move(store));
  }
  result.body = body.Take();
  return result;
}

LoopNest PermuteAxes(const LoopNest& nest, absl::Span<const uint32_t> order,
                     const ShapeEnv& shapes) {
  bool same = true;
  for (uint32_t k = 0; k < order.size(); ++k) same &= order[k] == k;
  if (same) return nest;
  std::vector<Axis> axes;
  std::vector<SymExpr> values(nest.axes.size());
  for (uint32_t k = 0; k < order.size(); ++k) {
    axes.push_back(nest.axes[order[k]]);
    values[order[k]] = SymExpr::Axis(k);
  }
  return ReplaceAxes(nest, std::move(axes), values, shapes);
}

namespace {

size_t CountVars(const SymExpr& e) {
  size_t n = 0;
  if (!e.is_constant()) e.VisitVars([&](Var) { ++n; });
  return n;
}

// Calls `visit` for every index expression of the nest.
template <typename Visit>
void VisitIndices(const LoopNest& nest, Visit visit) {
  for (const ScalarNode& node : nest.body) {
    for (const SymExpr& index : node.index) visit(index);
  }
  for (const Store& store : nest.stores) {
    for (const SymExpr& index : store.index) visit(index);
  }
}

struct Division {
  uint32_t axis;
  SymExpr divisor;
};

// The first `axis // c` or `axis mod c` in `e` whose divisor divides the
// extent.
std::optional<Division> FindDivision(const SymExpr& e,
                                     const std::vector<Axis>& axes) {
  if (e.is_constant()) return std::nullopt;
  for (const SymExpr::Term& term : e.sum().terms) {
    for (const SymExpr::Atom& atom : term.atoms) {
      if (atom.is_var()) continue;
      const auto& [left, right] = *atom.operands;
      Var var;
      if ((atom.op == SymOp::kFloorDiv || atom.op == SymOp::kMod) &&
          left.AsVar(&var) && var.kind == Var::Kind::kAxis &&
          !DependsOnAxesFrom(right, 0) && !HasIndirect(right)) {
        const auto quotient = ExactQuotient(axes[var.index].extent, right);
        if (quotient.has_value() && !quotient->Is(1) && !right.Is(1)) {
          return Division{var.index, right};
        }
      }
      for (const SymExpr* side : {&left, &right}) {
        if (auto found = FindDivision(*side, axes)) return found;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

LoopNest SplitAtDivisions(LoopNest nest, const ShapeEnv& shapes) {
  for (int round = 0; round < 16; ++round) {
    std::optional<Division> division;
    VisitIndices(nest, [&](const SymExpr& e) {
      if (!division.has_value()) division = FindDivision(e, nest.axes);
    });
    if (!division.has_value()) return nest;
    std::vector<Axis> axes;
    std::vector<SymExpr> values;
    for (uint32_t k = 0; k < nest.axes.size(); ++k) {
      const Axis& axis = nest.axes[k];
      const SymExpr here = SymExpr::Axis(static_cast<uint32_t>(axes.size()));
      if (k != division->axis) {
        values.push_back(here);
        axes.push_back(axis);
        continue;
      }
      const SymExpr low = SymExpr::Axis(static_cast<uint32_t>(axes.size()) + 1);
      values.push_back(here * division->divisor + low);
      axes.push_back(
          {*ExactQuotient(axis.extent, division->divisor), axis.reduction});
      axes.push_back({division->divisor, axis.reduction});
    }
    nest = ReplaceAxes(nest, std::move(axes), values, shapes);
  }
  return nest;
}

namespace {

// The coefficient of `axis` in `e`, if the axis is used in no other way. Other axes and
// indirect variables may be added to it.
std::optional<SymExpr> CoefficientIn(const SymExpr& e, uint32_t axis) {
  SymExpr total = 0;
  if (e.is_constant()) return total;
  const Var var{Var::Kind::kAxis, axis};
  if (!e.DependsOn(var)) return total;
  for (const SymExpr::Term& term : e.sum().terms) {
    bool met = false;
    for (const SymExpr::Atom& atom : term.atoms) {
      if (!atom.is_var()) {
        if (atom.operands->first.DependsOn(var) ||
            atom.operands->second.DependsOn(var)) {
          return std::nullopt;
        }
        if (met) return std::nullopt;
      } else if (atom.var == var) {
        if (met) return std::nullopt;
        met = true;
      }
    }
    if (!met) continue;
    SymExpr coefficient = term.coefficient;
    for (const SymExpr::Atom& atom : term.atoms) {
      if (atom.is_var() && atom.var != var)
        coefficient *= SymExpr::Of(atom.var);
    }
    if (DependsOnAxesFrom(coefficient, 0) || HasIndirect(coefficient) ||
        term.atoms.size() > 1 + CountVars(coefficient)) {
      return std::nullopt;
    }
    total += coefficient;
  }
  return total;
}

// Whether `e` uses axes k and k+1 only as extent * k + (k+1).
bool JoinIn(const SymExpr& e, uint32_t k, const SymExpr& inner_extent) {
  const auto outer = CoefficientIn(e, k);
  if (!outer.has_value()) return false;
  const auto inner = CoefficientIn(e, k + 1);
  return inner.has_value() && *outer == *inner * inner_extent;
}

}  // namespace

void FlattenAddresses(LoopNest& nest, const std::vector<Buffer>& buffers) {
  const auto flatten = [&](DimVector& index, BufferId buffer) {
    index.assign(1, ElementAt(index, buffers[buffer].strides));
  };
  for (ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kLoad) flatten(node.index, node.buffer);
  }
  for (Store& store : nest.stores) flatten(store.index, store.buffer);
}

LoopNest MergeAxes(LoopNest nest, const ShapeEnv& shapes) {
  const size_t n = nest.axes.size();
  std::vector<bool> joins(n, false);  // axis k joins axis k-1
  for (uint32_t k = 0; k + 1 < n; ++k) {
    joins[k + 1] = nest.axes[k].reduction == nest.axes[k + 1].reduction;
  }
  VisitIndices(nest, [&](const SymExpr& e) {
    if (e.is_constant()) return;
    for (uint32_t k = 0; k + 1 < n; ++k) {
      if (joins[k + 1]) joins[k + 1] = JoinIn(e, k, nest.axes[k + 1].extent);
    }
  });
  std::vector<Axis> axes;
  std::vector<SymExpr> values(n, 0);
  for (uint32_t k = 0; k < n;) {
    uint32_t end = k + 1;
    while (end < n && joins[end]) ++end;
    SymExpr extent = 1;
    for (uint32_t a = k; a < end; ++a) extent *= nest.axes[a].extent;
    // The last axis of a run stands for all of it: its coefficient is that of the merged
    // axis.
    values[end - 1] = SymExpr::Axis(static_cast<uint32_t>(axes.size()));
    axes.push_back({extent, nest.axes[k].reduction});
    k = end;
  }
  if (axes.size() == n) return nest;
  return ReplaceAxes(nest, std::move(axes), values, shapes);
}

}  // namespace kiln
