#include "compiler/loop/unroll_reductions.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/moving_nodes.h"

namespace kiln {

namespace {

// The most loads at each reduced point. With more, the reduction is over the rows of a
// window, and better as a loop.
constexpr int kMostLoads = 5;

// The operation that combines two elements; none if it takes more than one.
std::optional<ScalarOp> StepOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ScalarOp::kAdd;
    case ReduceOp::kProd:
      return ScalarOp::kMul;
    case ReduceOp::kMax:
      return ScalarOp::kMaximum;
    case ReduceOp::kMin:
      return ScalarOp::kMinimum;
    case ReduceOp::kAny:
      return ScalarOp::kOr;
    case ReduceOp::kAll:
      return ScalarOp::kAnd;
    case ReduceOp::kXor:
      return ScalarOp::kXor;
    default:
      return std::nullopt;
  }
}

class Unroller {
 public:
  Unroller(const LoopNest& nest, const ShapeEnv& shapes)
      : nest_(nest),
        shapes_(shapes),
        outer_(NumOuterAxes(nest)),
        moves_(nest) {}

  // The nest without its reduced axes; none if it is not changed.
  std::optional<LoopNest> Run(int64_t threshold) {
    if (!CountPoints(threshold)) return std::nullopt;
    if (!MayUnroll()) return std::nullopt;
    LoopNest out;
    TakeOrigins(nest_, out);
    out.inlined = nest_.inlined;
    out.merged = nest_.merged;
    out.axes.assign(nest_.axes.begin(), nest_.axes.begin() + outer_);
    extents_ = ExtentsOf(out);
    for (int64_t p = 0; p < points_; ++p) at_.push_back(AxesAt(p));
    ids_.assign(points_, {});
    for (ScalarId id = 0; id < nest_.body.size(); ++id) AddNode(id);
    for (Store store : nest_.stores) {
      for (SymExpr& e : store.index) e = Rewritten(e, 0);
      store.value = ids_[0][store.value];
      if (store.mask != Store::kNoMask) store.mask = ids_[0][store.mask];
      out.stores.push_back(std::move(store));
    }
    out.body = body_.Take();
    DropDeadNodes(out);
    return out;
  }

 private:
  // Counts the reduced points. Returns whether there is at least one, and fewer than
  // `threshold`.
  bool CountPoints(int64_t threshold) {
    for (size_t a = outer_; a < nest_.axes.size(); ++a) {
      const SymExpr& extent = nest_.axes[a].extent;
      if (!extent.is_constant() || extent.constant() < 1) return false;
      points_ *= extent.constant();
      if (points_ >= threshold) return false;
    }
    return true;
  }

  bool MayUnroll() const {
    int loads = 0;
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      const ScalarNode& node = nest_.body[id];
      if (node.op == ScalarOp::kLoad && moves_[id] && ++loads > kMostLoads)
        return false;
      if (!IsReduction(node.op)) continue;
      if (node.op == ScalarOp::kReduceResult) {
        if (!IsArgReduction(nest_.body[node.args[0]].reduce)) return false;
      } else if (node.op != ScalarOp::kReduce ||
                 (!StepOf(node.reduce) && !IsArgReduction(node.reduce))) {
        return false;
      }
    }
    for (const Store& store : nest_.stores) {
      if (store.mode == StoreMode::kSum || moves_.Moves(store)) return false;
    }
    return true;
  }

  // The axes of the nest at a reduced point, given its number in row-major order.
  std::vector<SymExpr> AxesAt(int64_t point) const {
    std::vector<SymExpr> axes(nest_.axes.size());
    for (size_t a = nest_.axes.size(); a-- > outer_;) {
      const int64_t extent = nest_.axes[a].extent.constant();
      axes[a] = point % extent;
      point /= extent;
    }
    for (uint32_t a = 0; a < outer_; ++a) axes[a] = SymExpr::Axis(a);
    return axes;
  }

  // Appends the node's copies for all reduced points.
  void AddNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    if (node.op == ScalarOp::kReduceResult) {
      const ScalarId of = node.args[0];
      AddEverywhere(node.number.i == 0 ? ids_[0][of] : places_[of]);
    } else if (node.op == ScalarOp::kReduce) {
      AddEverywhere(IsArgReduction(node.reduce) ? Extreme(id) : Combined(node));
    } else if (moves_[id]) {
      for (int64_t p = 0; p < points_; ++p) ids_[p].push_back(Copy(node, p));
    } else {
      AddEverywhere(Copy(node, 0));
    }
  }
  void AddEverywhere(ScalarId value) {
    for (std::vector<ScalarId>& ids : ids_) ids.push_back(value);
  }

  SymExpr Rewritten(const SymExpr& index, int64_t point) const {
    return SimplifyIndex(RewriteIndex(index, at_[point], ids_[point], body_),
                         extents_, shapes_);
  }

  ScalarId Copy(const ScalarNode& old, int64_t point) {
    ScalarNode node = old;
    for (ScalarId& arg : node.args) arg = ids_[point][arg];
    for (SymExpr& e : node.index) e = Rewritten(e, point);
    switch (node.op) {
      case ScalarOp::kIndex:
        return body_.Index(node.index[0], node.dtype);
      case ScalarOp::kCast:
        return body_.Cast(node.dtype, node.args[0]);
      case ScalarOp::kWhere:
      case ScalarOp::kAnd:
        return body_.Op(node.op, node.args);
      default:
        return body_.Add(std::move(node));
    }
  }

  ScalarId Combined(const ScalarNode& reduce) {
    const ScalarOp step = *StepOf(reduce.reduce);
    ScalarId value = ids_[0][reduce.args[0]];
    for (int64_t p = 1; p < points_; ++p)
      value = body_.Op(step, value, ids_[p][reduce.args[0]]);
    return value;
  }

  // The value of an argmax or argmin; its index is stored in places_. The first of equal
  // values is taken, and the first NaN before all numbers.
  ScalarId Extreme(ScalarId id) {
    const ScalarNode& reduce = nest_.body[id];
    const ScalarOp better =
        reduce.reduce == ReduceOp::kArgMax ? ScalarOp::kGt : ScalarOp::kLt;
    ScalarId value = ids_[0][reduce.args[0]];
    ScalarId place = ids_[0][reduce.args[1]];
    for (int64_t p = 1; p < points_; ++p) {
      const ScalarId other = ids_[p][reduce.args[0]];
      ScalarId takes = body_.Op(better, other, value);
      if (IsFloat(reduce.dtype)) {
        const ScalarId first_nan = body_.Op(
            ScalarOp::kAnd, body_.Op(ScalarOp::kIsNan, other),
            body_.Op(ScalarOp::kNot, body_.Op(ScalarOp::kIsNan, value)));
        takes = body_.Op(ScalarOp::kOr, takes, first_nan);
      }
      value = body_.Where(takes, other, value);
      place = body_.Where(takes, ids_[p][reduce.args[1]], place);
    }
    places_.resize(nest_.body.size());
    places_[id] = place;
    return value;
  }

  const LoopNest& nest_;
  const ShapeEnv& shapes_;
  const uint32_t outer_;  // axes that are not reduced
  int64_t points_ = 1;    // reduced ones
  const MovingNodes moves_;
  std::vector<SymExpr> extents_;          // of the axes that stay
  std::vector<std::vector<SymExpr>> at_;  // by point: the values of the axes
  BodyBuilder body_;
  std::vector<std::vector<ScalarId>> ids_;  // by point: the new nodes
  std::vector<ScalarId> places_;  // by node: the index of an argmax or argmin
};

}  // namespace

int UnrollReductions(LoopProgram& program, int64_t threshold) {
  int changed = 0;
  for (LoopStep& step : program.steps) {
    auto* nest = std::get_if<LoopNest>(&step);
    if (nest == nullptr || !HasReduction(*nest)) continue;
    std::optional<LoopNest> unrolled =
        Unroller(*nest, program.shapes).Run(threshold);
    if (!unrolled.has_value()) continue;
    *nest = *std::move(unrolled);
    ++changed;
  }
  return changed;
}

}  // namespace kiln
