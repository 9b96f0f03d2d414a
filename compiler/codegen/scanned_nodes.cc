#include "compiler/codegen/scanned_nodes.h"

namespace kiln {
namespace {

void MarkIndex(const DimVector& index, std::vector<bool>& set) {
  for (const SymExpr& e : index) {
    if (e.is_constant()) continue;
    e.VisitVars([&](Var var) {
      if (var.kind == Var::Kind::kIndirect) set[var.index] = true;
    });
  }
}

}  // namespace

ScannedNodes NodesOfScans(const LoopNest& nest, const NestFacts& facts) {
  ScannedNodes nodes;
  std::vector<bool> taken(nest.body.size(), false);
  std::vector<bool> stored(nest.body.size(), false);
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    if (!IsAlongRow(nest.body[id].op)) continue;
    nodes.ops.push_back(id);
    taken[nest.body[id].args[0]] = true;
  }
  for (const Store& store : nest.stores) {
    stored[store.value] = true;
    if (store.mask != Store::kNoMask) stored[store.mask] = true;
    MarkIndex(store.index, stored);
  }
  // From users back to what they read; an operation's result is there.
  for (ScalarId id = static_cast<ScalarId>(nest.body.size()); id-- > 0;) {
    if (IsAlongRow(nest.body[id].op)) continue;
    for (std::vector<bool>* set : {&taken, &stored}) {
      if (!(*set)[id]) continue;
      for (ScalarId arg : nest.body[id].args) (*set)[arg] = true;
      MarkIndex(nest.body[id].index, *set);
    }
  }
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    if (IsAlongRow(nest.body[id].op)) continue;
    if (!facts.IsReduced(id)) {
      if (taken[id] || stored[id]) nodes.outer.push_back(id);
      continue;
    }
    if (taken[id]) nodes.inputs.push_back(id);
    if (stored[id]) nodes.stored.push_back(id);
  }
  return nodes;
}

}  // namespace kiln
