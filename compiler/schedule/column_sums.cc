#include "compiler/schedule/column_sums.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/moving_nodes.h"

namespace kiln {

namespace {

// The number of a point of the axes [first, last), the last axis fastest.
SymExpr PointNumber(const std::vector<Axis>& axes, uint32_t first,
                    uint32_t last) {
  SymExpr number = 0;
  for (uint32_t a = first; a < last; ++a)
    number = number * axes[a].extent + SymExpr::Axis(a);
  return number;
}

SymExpr PointsOf(const std::vector<Axis>& axes, uint32_t first, uint32_t last) {
  SymExpr points = 1;
  for (uint32_t a = first; a < last; ++a) points = points * axes[a].extent;
  return points;
}

bool IsFloatSum(const ScalarNode& node) {
  return node.op == ScalarOp::kReduce && node.reduce == ReduceOp::kSum &&
         (node.dtype == DType::kFloat32 || node.dtype == DType::kFloat64);
}

bool CanBeTakenApart(const LoopNest& nest) {
  if (NumOuterAxes(nest) == 0 || !HasReduction(nest)) return false;
  std::vector<bool> needs_sum(nest.body.size(), false);
  const auto index_needs_sum = [&](const SymExpr& e) {
    bool found = false;
    e.VisitVars([&](Var var) {
      found |= var.kind == Var::Kind::kIndirect && needs_sum[var.index];
    });
    return found;
  };
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    for (ScalarId arg : node.args)
      needs_sum[id] = needs_sum[id] || needs_sum[arg];
    for (const SymExpr& e : node.index)
      needs_sum[id] = needs_sum[id] || index_needs_sum(e);
    if (IsAlongRow(node.op) || node.op == ScalarOp::kReduceResult) {
      return false;
    }
    if (node.op != ScalarOp::kReduce) continue;
    if (!IsFloatSum(node) || needs_sum[id] ||
        nest.body[node.args[0]].dtype != node.dtype) {
      return false;
    }
    needs_sum[id] = true;
  }
  // A value that is stored for each row is stored while the rows are added, before any
  // sum is known.
  const MovingNodes moving(nest);
  return std::all_of(
      nest.stores.begin(), nest.stores.end(), [&](const Store& store) {
        const bool store_needs_sum =
            needs_sum[store.value] ||
            (store.mask != Store::kNoMask && needs_sum[store.mask]) ||
            std::any_of(store.index.begin(), store.index.end(),
                        index_needs_sum);
        return store.mode == StoreMode::kSet &&
               !(store_needs_sum && moving.Moves(store));
      });
}

Buffer PartialSums(DType dtype, const SymExpr& stretches,
                   const SymExpr& columns, BufferId id) {
  Buffer buffer;
  buffer.name = absl::StrCat("buf", id);
  buffer.dtype = dtype;
  buffer.sizes = {stretches, columns};
  buffer.strides = {columns, 1};
  return buffer;
}

// Splits a nest for which CanBeTakenApart holds.
class Split {
 public:
  Split(const LoopNest& nest, int64_t stretch, BufferId first_buffer,
        const ShapeEnv& shapes)
      : nest_(nest),
        stretch_(stretch),
        first_buffer_(first_buffer),
        shapes_(shapes),
        outer_(NumOuterAxes(nest)),
        all_(static_cast<uint32_t>(nest.axes.size())),
        columns_(PointsOf(nest.axes, 0, outer_)),
        column_(PointNumber(nest.axes, 0, outer_)),
        moving_(nest),
        finished_(nest.body.size()) {}

  ColumnSums Run() {
    LoopNest adds = nest_;
    adds.stores.clear();
    for (const Store& store : nest_.stores)
      if (moving_.Moves(store)) adds.stores.push_back(store);
    FinishBody(adds);
    FinishStores();
    DropDeadNodes(out_.finishes);
    DropDeadNodes(adds);
    // Rows first, as in the nest that this one will be fused with.
    std::vector<Axis> axes;
    std::vector<SymExpr> values(all_);
    for (uint32_t k = 0; k < all_; ++k) {
      const uint32_t from =
          k < all_ - outer_ ? outer_ + k : k - (all_ - outer_);
      axes.push_back({nest_.axes[from].extent, false});
      values[from] = SymExpr::Axis(k);
    }
    out_.adds = ReplaceAxes(adds, std::move(axes), values, shapes_);
    return std::move(out_);
  }

 private:
  // Makes each reduction sum the partial sums, and makes `adds` store them.
  void FinishBody(LoopNest& adds) {
    LoopNest& finishes = out_.finishes;
    const SymExpr stretches =
        CeilDiv(PointsOf(nest_.axes, outer_, all_), stretch_);
    TakeOrigins(nest_, finishes);
    finishes.axes.assign(nest_.axes.begin(), nest_.axes.begin() + outer_);
    finishes.axes.push_back({stretches, true});
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      ScalarNode node = nest_.body[id];
      for (ScalarId& arg : node.args) arg = finished_[arg];
      for (SymExpr& e : node.index) e = Finished(e);
      if (node.op == ScalarOp::kReduce) {
        const BufferId partials =
            first_buffer_ + static_cast<BufferId>(out_.partials.size());
        out_.partials.push_back(
            PartialSums(node.dtype, stretches, columns_, partials));
        adds.stores.push_back({.buffer = partials,
                               .index = {0, column_},
                               .value = nest_.body[id].args[0],
                               .mode = StoreMode::kSum,
                               .stretch = stretch_});
        ScalarNode load{ScalarOp::kLoad, node.dtype};
        load.buffer = partials;
        load.index = {SymExpr::Axis(outer_), column_};
        node.args[0] = static_cast<ScalarId>(finishes.body.size());
        finishes.body.push_back(std::move(load));
      }
      finished_[id] = static_cast<ScalarId>(finishes.body.size());
      finishes.body.push_back(std::move(node));
    }
  }

  void FinishStores() {
    for (Store store : nest_.stores) {
      if (moving_.Moves(store)) continue;
      store.value = finished_[store.value];
      if (store.mask != Store::kNoMask) store.mask = finished_[store.mask];
      for (SymExpr& e : store.index) e = Finished(e);
      out_.finishes.stores.push_back(std::move(store));
    }
  }

  SymExpr Finished(const SymExpr& e) const {
    return e.Substitute([&](Var var) {
      if (var.kind == Var::Kind::kIndirect) var.index = finished_[var.index];
      return SymExpr::Of(var);
    });
  }

  const LoopNest& nest_;
  const int64_t stretch_;
  const BufferId first_buffer_;
  const ShapeEnv& shapes_;
  const uint32_t outer_, all_;  // numbers of axes
  const SymExpr columns_, column_;
  const MovingNodes moving_;
  std::vector<ScalarId> finished_;  // for each node its copy in out_.finishes
  ColumnSums out_;
};

}  // namespace

std::optional<ColumnSums> TakeColumnSumsApart(const LoopNest& nest,
                                              int64_t stretch,
                                              BufferId first_buffer,
                                              const ShapeEnv& shapes) {
  if (!CanBeTakenApart(nest)) return std::nullopt;
  ColumnSums out = Split(nest, stretch, first_buffer, shapes).Run();
  if (out.finishes.stores.empty()) return std::nullopt;
  return out;
}

void SetStretches(LoopNest& nest) {
  const SymExpr row = PointNumber(nest.axes, 0, NumOuterAxes(nest));
  for (Store& store : nest.stores) {
    if (store.mode == StoreMode::kSum)
      store.index[0] = FloorDiv(row, store.stretch);
  }
}

int64_t StretchOf(const LoopNest& nest) {
  for (const Store& store : nest.stores)
    if (store.mode == StoreMode::kSum) return store.stretch;
  return 0;
}

bool StretchesAreInOrder(const LoopNest& nest, const NestFacts& facts,
                         const ShapeEnv& shapes) {
  const int64_t stretch = StretchOf(nest);
  const SymExpr row = PointNumber(nest.axes, 0, facts.num_outer);
  const SymExpr columns = PointsOf(nest.axes, facts.num_outer, facts.num_axes);
  const SymExpr column =
      PointNumber(nest.axes, facts.num_outer, facts.num_axes);
  const SymExpr expected = SimplifyIndex(
      FloorDiv(row, stretch) * columns + column, facts.extents, shapes);
  return std::all_of(
      nest.stores.begin(), nest.stores.end(), [&](const Store& store) {
        return store.mode != StoreMode::kSum ||
               (store.stretch == stretch &&
                SimplifyIndex(store.index[0], facts.extents, shapes) ==
                    expected);
      });
}

}  // namespace kiln
