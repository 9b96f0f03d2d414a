#include "compiler/schedule/vector_masks.h"

#include <algorithm>

#include "compiler/loop/index_expr.h"

namespace kiln {
namespace {

// Whether the node is an index that is linear in the axis.
bool IsLinearIndex(const LoopNest& nest, const NestFacts& facts, ScalarId id,
                   uint32_t axis) {
  const ScalarNode& node = nest.body[id];
  return node.op == ScalarOp::kIndex && !HasIndirect(node.index[0]) &&
         MotionOf(node.index[0], axis, facts) != Motion::kIrregular;
}

// For each bool node, whether it holds on one interval of the axis, or does not depend on
// the axis.
std::vector<bool> HoldOnInterval(const LoopNest& nest, const NestFacts& facts,
                                 uint32_t axis) {
  std::vector<bool> found(nest.body.size(), false);
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    if (node.dtype != DType::kBool) continue;
    const auto fixed_or_linear = [&](ScalarId arg) {
      return (facts.axes[arg] & AxisBit(axis)) == 0 ||
             IsLinearIndex(nest, facts, arg, axis);
    };
    if ((facts.axes[id] & AxisBit(axis)) == 0) {
      found[id] = true;
    } else if (node.op == ScalarOp::kAnd) {
      found[id] = found[node.args[0]] && found[node.args[1]];
    } else if (IsOrderComparison(node.op)) {
      found[id] =
          fixed_or_linear(node.args[0]) && fixed_or_linear(node.args[1]);
    }
  }
  return found;
}

// The value at the middle point of an integer or a bool that is computed from indices and
// constants. Any other value counts as 1.
int64_t ValueInTheMiddle(ScalarId id, const LoopNest& nest,
                         const NestFacts& facts, const ShapeEnv& shapes) {
  const ScalarNode& node = nest.body[id];
  const auto arg = [&](int k) {
    return ValueInTheMiddle(node.args[k], nest, facts, shapes);
  };
  switch (node.op) {
    case ScalarOp::kConstant:
      return IsFloat(node.dtype) ? 1 : node.number.i;
    case ScalarOp::kIndex: {
      if (HasIndirect(node.index[0])) return 1;
      return shapes.Hint(node.index[0].Substitute([&](Var var) {
        return var.kind == Var::Kind::kAxis
                   ? SymExpr(shapes.Hint(facts.extents[var.index]) / 2)
                   : SymExpr::Of(var);
      }));
    }
    case ScalarOp::kLt:
      return arg(0) < arg(1);
    case ScalarOp::kLe:
      return arg(0) <= arg(1);
    case ScalarOp::kGt:
      return arg(0) > arg(1);
    case ScalarOp::kGe:
      return arg(0) >= arg(1);
    case ScalarOp::kAnd:
      return arg(0) != 0 && arg(1) != 0;
    default:  // not an operation of masks
      return 1;
  }
}

}  // namespace

std::vector<ScalarId> RangeMasks(const LoopNest& nest, const NestFacts& facts,
                                 uint32_t axis) {
  const std::vector<bool> on_interval = HoldOnInterval(nest, facts, axis);
  const auto is_mask = [&](ScalarId id) {
    return on_interval[id] && (facts.axes[id] & AxisBit(axis)) != 0;
  };
  // Whether a node that is not itself such a mask reads it.
  std::vector<bool> read(nest.body.size(), false);
  bool loads = false;
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    for (const ScalarId arg : node.args)
      if (is_mask(arg) && !is_mask(id)) read[arg] = true;
    loads |= node.op == ScalarOp::kLoad && !node.args.empty() &&
             is_mask(node.args[0]) && !HasIndirect(facts.load_offset[id]);
  }
  std::vector<ScalarId> masks;
  for (ScalarId id = 0; loads && id < nest.body.size(); ++id)
    if (read[id]) masks.push_back(id);
  return masks;
}

bool HoldInTheMiddle(const std::vector<ScalarId>& masks, const LoopNest& nest,
                     const NestFacts& facts, const ShapeEnv& shapes) {
  return std::all_of(masks.begin(), masks.end(), [&](ScalarId id) {
    return ValueInTheMiddle(id, nest, facts, shapes) != 0;
  });
}

}  // namespace kiln
