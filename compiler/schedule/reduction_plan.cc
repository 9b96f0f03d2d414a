#include "compiler/schedule/reduction_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

// Nodes that differ between reduced points.
std::vector<bool> ReducedNodes(const LoopNest& nest, uint32_t outer) {
  std::vector<bool> reduced(nest.body.size(), false);
  const auto in_index = [&](const DimVector& index) {
    bool found = false;
    for (const SymExpr& e : index) {
      if (e.is_constant()) continue;
      e.VisitVars([&](Var v) {
        found |= v.kind == Var::Kind::kAxis && v.index >= outer;
        found |= v.kind == Var::Kind::kIndirect && reduced[v.index];
      });
    }
    return found;
  };
  for (size_t i = 0; i < nest.body.size(); ++i) {
    const ScalarNode& node = nest.body[i];
    if (node.op == ScalarOp::kReduce) continue;
    reduced[i] = in_index(node.index);
    for (const ScalarId arg : node.args) {
      if (reduced[arg]) reduced[i] = true;
    }
  }
  return reduced;
}

// Whether partial results can stand for the whole ones.
bool CanSplit(const LoopNest& nest, uint32_t outer,
              const std::vector<bool>& reduced) {
  std::vector<bool> after(nest.body.size(), false);  // a reduction beneath
  for (size_t i = 0; i < nest.body.size(); ++i) {
    const ScalarNode& node = nest.body[i];
    for (const ScalarId arg : node.args) {
      if (after[arg]) after[i] = true;
    }
    if (node.op == ScalarOp::kScan || node.op == ScalarOp::kReduceResult) {
      return false;
    }
    if (node.op == ScalarOp::kReduce) {
      if (after[i] || node.args.size() != 1) return false;
      after[i] = true;
    }
    if (after[i] && reduced[i]) return false;
    for (const SymExpr& e : node.index) {
      if (e.is_constant()) continue;
      bool bad = false;
      e.VisitVars([&](Var v) {
        bad |= v.kind == Var::Kind::kIndirect && after[v.index];
      });
      if (bad) return false;
    }
  }
  for (const Store& store : nest.stores) {
    if (store.mode != StoreMode::kSet || store.mask != Store::kNoMask ||
        reduced[store.value]) {
      return false;
    }
    for (const SymExpr& e : store.index) {
      if (e.is_constant()) continue;
      bool bad = false;
      e.VisitVars([&](Var v) {
        bad |= v.kind == Var::Kind::kIndirect ||
               (v.kind == Var::Kind::kAxis && v.index >= outer);
      });
      if (bad) return false;
    }
  }
  return true;
}

// The largest divisor of `extent` that is at most `most`.
int64_t DivisorAtMost(int64_t extent, int64_t most) {
  for (int64_t parts = std::min(most, extent); parts > 1; --parts) {
    if (extent % parts == 0) return parts;
  }
  return 1;
}

// Memory for one result of each part.
BufferId AddPartial(DType dtype, const DimVector& sizes, LoopProgram& program) {
  Buffer buffer;
  buffer.name = absl::StrCat("buf", program.buffers.size());
  buffer.dtype = dtype;
  buffer.sizes = sizes;
  buffer.strides = ContiguousStrides(sizes);
  program.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(program.buffers.size() - 1);
}

struct Stages {
  LoopNest first, second;
};

Stages Cut(const LoopNest& nest, uint32_t outer, int64_t parts,
           const std::vector<bool>& reduced, LoopProgram& program) {
  // First: the part outermost, so that neighbours stay neighbours.
  const SymExpr length = nest.axes[outer].extent.constant() / parts;
  std::vector<Axis> axes = {{parts, false}};
  std::vector<SymExpr> values;
  DimVector sizes = {parts}, place = {SymExpr::Axis(0)};
  for (uint32_t k = 0; k < nest.axes.size(); ++k) {
    values.push_back(SymExpr::Axis(k + 1));
    axes.push_back(nest.axes[k]);
    if (k >= outer) continue;
    sizes.push_back(nest.axes[k].extent);
    place.push_back(SymExpr::Axis(k + 1));
  }
  axes[outer + 1].extent = length;
  values[outer] = SymExpr::Axis(0) * length + SymExpr::Axis(outer + 1);

  LoopNest whole = nest;
  whole.stores.clear();
  BodyBuilder body;
  DimVector second_place = {SymExpr::Axis(outer)};
  std::vector<SymExpr> same;
  for (uint32_t k = 0; k < outer; ++k) {
    second_place.push_back(SymExpr::Axis(k));
    same.push_back(SymExpr::Axis(k));
  }
  same.resize(nest.axes.size(), 0);
  std::vector<ScalarId> ids(nest.body.size(), 0);
  for (ScalarId i = 0; i < nest.body.size(); ++i) {
    ScalarNode node = nest.body[i];
    if (node.op == ScalarOp::kReduce) {
      const BufferId id = AddPartial(node.dtype, sizes, program);
      // Stored at axes of the old nest; the part is set below.
      whole.stores.push_back({id, {}, i});
      const ScalarId part = body.Load(id, node.dtype, second_place);
      ids[i] = body.Reduce(node.reduce, node.dtype, {&part, 1});
    } else if (!reduced[i]) {
      for (ScalarId& arg : node.args) arg = ids[arg];
      for (SymExpr& e : node.index) e = RewriteIndex(e, same, ids, body);
      ids[i] = body.Add(std::move(node));
    }
  }
  Stages stages;
  stages.first = ReplaceAxes(whole, std::move(axes), values, program.shapes);
  for (Store& store : stages.first.stores) store.index = place;
  DropDeadNodes(stages.first);
  stages.second.origins = nest.origins;
  stages.second.axes.assign(nest.axes.begin(), nest.axes.begin() + outer);
  stages.second.axes.push_back({parts, true});
  for (Store store : nest.stores) {
    for (SymExpr& e : store.index) e = RewriteIndex(e, same, ids, body);
    store.value = ids[store.value];
    stages.second.stores.push_back(std::move(store));
  }
  stages.second.body = body.Take();
  DropDeadNodes(stages.second);
  return stages;
}

}  // namespace

int SplitLongReductions(LoopProgram& program, const Target& target,
                        const SplitLimits& limits) {
  if (target.kind != TargetKind::kCuda) return 0;
  std::vector<LoopStep> steps;
  int cut = 0;
  for (LoopStep& step : program.steps) {
    auto* nest = std::get_if<LoopNest>(&step);
    if (nest == nullptr || !HasReduction(*nest)) {
      steps.push_back(std::move(step));
      continue;
    }
    const uint32_t outer = NumOuterAxes(*nest);
    int64_t results = 1, terms = 1;
    for (const Axis& axis : nest->axes) {
      (axis.reduction ? terms : results) *= program.shapes.Hint(axis.extent);
    }
    const std::vector<bool> reduced = ReducedNodes(*nest, outer);
    int64_t parts = 1;
    if (terms >= limits.least_reduced &&
        results * terms >= limits.least_points &&
        results <= limits.most_outer &&
        nest->axes[outer].extent.is_constant() &&
        CanSplit(*nest, outer, reduced)) {
      parts = DivisorAtMost(
          nest->axes[outer].extent.constant(),
          std::clamp<int64_t>(limits.parallel / std::max<int64_t>(1, results),
                              2, limits.most_parts));
    }
    if (parts < 4) {
      steps.push_back(std::move(step));
      continue;
    }
    Stages stages = Cut(*nest, outer, parts, reduced, program);
    steps.push_back(std::move(stages.first));
    steps.push_back(std::move(stages.second));
    ++cut;
  }
  program.steps = std::move(steps);
  return cut;
}

}  // namespace kiln
