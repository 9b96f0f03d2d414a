#include "compiler/schedule/row_counts.h"

#include <algorithm>

namespace kiln {
namespace {

// The largest value of the node if it is a bitwise `and` with a constant.
std::optional<int64_t> MostOf(const LoopNest& nest, ScalarId id) {
  const ScalarNode& node = nest.body[id];
  if (node.op != ScalarOp::kAnd || node.dtype == DType::kBool)
    return std::nullopt;
  for (const ScalarId arg : node.args) {
    const ScalarNode& mask = nest.body[arg];
    if (mask.op == ScalarOp::kConstant && mask.number.i >= 0)
      return mask.number.i;
  }
  return std::nullopt;
}

// The address with 0 in place of loaded and computed numbers.
SymExpr WithoutNodes(const SymExpr& offset) {
  return offset.Substitute([](Var var) {
    return var.kind == Var::Kind::kIndirect ? SymExpr(0) : SymExpr::Of(var);
  });
}

// The largest value of `cell`, which must be a constant plus one node.
std::optional<int64_t> LastOf(const LoopNest& nest, const SymExpr& cell) {
  std::optional<ScalarId> node;
  bool others = false;
  cell.VisitVars([&](Var var) {
    others |= var.kind != Var::Kind::kIndirect || node.has_value();
    node = var.index;
  });
  if (!node.has_value() || others) return std::nullopt;
  const SymExpr before = WithoutNodes(cell);
  if (!before.is_constant() || before.constant() < 0 ||
      !(cell - before == SymExpr::Indirect(*node))) {
    return std::nullopt;
  }
  const std::optional<int64_t> most = MostOf(nest, *node);
  if (!most.has_value()) return std::nullopt;
  return before.constant() + *most;
}

}  // namespace

std::optional<RowCounts> RowCountsOf(const LoopNest& nest,
                                     const NestFacts& facts) {
  if (facts.num_outer == 0 || nest.stores.empty()) return std::nullopt;
  const uint32_t last = facts.num_outer - 1;
  RowCounts counts;
  for (size_t s = 0; s < nest.stores.size(); ++s) {
    const Store& store = nest.stores[s];
    const SymExpr address = WithoutNodes(facts.store_offset[s]);
    if (s == 0) {
      counts.buffer = store.buffer;
      counts.first = address;
    }
    if (store.mode != StoreMode::kAtomicAdd || store.mask != Store::kNoMask ||
        store.buffer != counts.buffer ||
        nest.body[store.value].dtype != DType::kInt32 ||
        address.DependsOn({Var::Kind::kAxis, last})) {
      return std::nullopt;
    }
    counts.cell.push_back(facts.store_offset[s] - counts.first);
    const std::optional<int64_t> end = LastOf(nest, counts.cell.back());
    if (!end.has_value()) return std::nullopt;
    counts.cells = std::max(counts.cells, *end + 1);
  }
  return counts;
}

}  // namespace kiln
