#include "compiler/loop/moving_nodes.h"

#include "compiler/loop/loop_transforms.h"

namespace kiln {

MovingNodes::MovingNodes(const LoopNest& nest) : outer_(NumOuterAxes(nest)) {
  moves_.reserve(nest.body.size());
  for (const ScalarNode& node : nest.body) {
    bool moves = IndexMoves(node.index);
    for (const ScalarId arg : node.args) moves |= moves_[arg];
    moves_.push_back(moves && !IsReduction(node.op));
  }
}

bool MovingNodes::Moves(const Store& store) const {
  return moves_[store.value] || IndexMoves(store.index) ||
         (store.mask != Store::kNoMask && moves_[store.mask]);
}

bool MovingNodes::IndexMoves(const DimVector& index) const {
  bool moves = false;
  for (const SymExpr& e : index) {
    if (e.is_constant()) continue;
    e.VisitVars([&](Var v) {
      moves |= v.kind == Var::Kind::kAxis && v.index >= outer_;
      moves |= v.kind == Var::Kind::kIndirect && moves_[v.index];
    });
  }
  return moves;
}

}  // namespace kiln
