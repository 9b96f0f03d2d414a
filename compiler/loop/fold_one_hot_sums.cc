#include "compiler/loop/fold_one_hot_sums.h"

#include <optional>
#include <utility>
#include <vector>

#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/moving_nodes.h"

namespace kiln {

namespace {

class OneHotFolder {
 public:
  explicit OneHotFolder(const LoopNest& nest)
      : nest_(nest), axis_(NumOuterAxes(nest)), moves_(nest) {}

  // The nest without its reductions. None if one of them cannot be replaced.
  std::optional<LoopNest> Run() {
    if (nest_.axes.size() != axis_ + 1) return std::nullopt;
    if (!MayFold()) return std::nullopt;
    std::vector<SymExpr> axes;
    for (uint32_t a = 0; a < axis_; ++a) axes.push_back(SymExpr::Axis(a));
    axes.push_back(0);  // for nodes that move along it, which are not copied
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      const ScalarNode& node = nest_.body[id];
      if (node.op == ScalarOp::kReduce) {
        ids_.push_back(FoldedSum(node));
      } else if (moves_[id]) {
        ids_.push_back(0);
      } else {
        ids_.push_back(Copy(node, axes));
      }
    }
    LoopNest out;
    TakeOrigins(nest_, out);
    out.inlined = nest_.inlined;
    out.merged = nest_.merged;
    out.axes.assign(nest_.axes.begin(), nest_.axes.begin() + axis_);
    for (const Store& store : nest_.stores)
      out.stores.push_back(CopyStore(store, axes, ids_, body_));
    out.body = body_.Take();
    DropDeadNodes(out);
    return out;
  }

 private:
  bool MayFold() const {
    bool any = false;
    for (const ScalarNode& node : nest_.body) {
      if (IsAlongRow(node.op) || node.op == ScalarOp::kReduceResult)
        return false;
      if (node.op != ScalarOp::kReduce) continue;
      if (node.reduce != ReduceOp::kSum || !IsFloat(node.dtype) ||
          node.args.size() != 1 || !IsOneHot(node.args[0])) {
        return false;
      }
      any = true;
    }
    for (const Store& store : nest_.stores) {
      if (moves_.Moves(store)) return false;
    }
    return any;
  }

  // Whether the value is zero wherever the axis differs from the number it is compared
  // with.
  bool IsOneHot(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    switch (node.op) {
      case ScalarOp::kCast:
        return IsFloat(node.dtype) && IsFloat(nest_.body[node.args[0]].dtype) &&
               IsOneHot(node.args[0]);
      case ScalarOp::kNeg:
        return IsOneHot(node.args[0]);
      case ScalarOp::kMul:
        return (IsOneHot(node.args[0]) && !moves_[node.args[1]]) ||
               (IsOneHot(node.args[1]) && !moves_[node.args[0]]);
      case ScalarOp::kWhere:
        return IsFloat(node.dtype) && IsHit(node.args[0]) &&
               !moves_[node.args[1]] && IsZero(node.args[2]);
      default:  // no other value is known to be zero
        return false;
    }
  }

  bool IsZero(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    return node.op == ScalarOp::kConstant && node.number.f == 0;
  }

  // Whether the node is axis == number or number == axis.
  bool IsHit(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    if (node.op != ScalarOp::kEq) return false;
    return (IsAxis(node.args[0]) && !moves_[node.args[1]]) ||
           (IsAxis(node.args[1]) && !moves_[node.args[0]]);
  }
  bool IsAxis(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    return node.op == ScalarOp::kIndex && node.index[0] == SymExpr::Axis(axis_);
  }

  // The number that the axis is compared with, as a new node.
  ScalarId NumberOf(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    switch (node.op) {
      case ScalarOp::kWhere: {
        const ScalarNode& hit = nest_.body[node.args[0]];
        return ids_[IsAxis(hit.args[0]) ? hit.args[1] : hit.args[0]];
      }
      case ScalarOp::kMul:
        return NumberOf(IsOneHot(node.args[0]) ? node.args[0] : node.args[1]);
      default:  // kCast and kNeg
        return NumberOf(node.args[0]);
    }
  }

  // The value where the axis equals the number.
  ScalarId ValueAt(ScalarId id) {
    if (!moves_[id]) return ids_[id];
    const ScalarNode& node = nest_.body[id];
    switch (node.op) {
      case ScalarOp::kWhere:
        return ids_[node.args[1]];
      case ScalarOp::kCast:
        return body_.Cast(node.dtype, ValueAt(node.args[0]));
      case ScalarOp::kMul: {
        const ScalarId a = ValueAt(node.args[0]);
        return body_.Op(ScalarOp::kMul, a, ValueAt(node.args[1]));
      }
      default:  // kNeg
        return body_.Op(ScalarOp::kNeg, ValueAt(node.args[0]));
    }
  }

  ScalarId FoldedSum(const ScalarNode& sum) {
    const ScalarId number = NumberOf(sum.args[0]);
    const ScalarId inside = body_.Op(
        ScalarOp::kAnd,
        body_.Op(ScalarOp::kGe, number, body_.Int(DType::kInt64, 0)),
        body_.Op(ScalarOp::kLt, number, body_.Index(nest_.axes[axis_].extent)));
    return body_.Where(inside, body_.Cast(sum.dtype, ValueAt(sum.args[0])),
                       body_.Float(sum.dtype, 0));
  }

  ScalarId Copy(const ScalarNode& old, absl::Span<const SymExpr> axes) {
    ScalarNode node = old;
    for (ScalarId& arg : node.args) arg = ids_[arg];
    for (SymExpr& e : node.index) e = RewriteIndex(e, axes, ids_, body_);
    return body_.Add(std::move(node));
  }

  const LoopNest& nest_;
  const uint32_t axis_;
  const MovingNodes moves_;
  BodyBuilder body_;
  std::vector<ScalarId> ids_;  // for each node its copy in the new body
};

}  // namespace

int FoldOneHotSums(LoopProgram& program) {
  int changed = 0;
  for (LoopStep& step : program.steps) {
    auto* nest = std::get_if<LoopNest>(&step);
    if (nest == nullptr || !HasReduction(*nest)) continue;
    std::optional<LoopNest> folded = OneHotFolder(*nest).Run();
    if (!folded.has_value()) continue;
    *nest = *std::move(folded);
    ++changed;
  }
  return changed;
}

}  // namespace kiln
