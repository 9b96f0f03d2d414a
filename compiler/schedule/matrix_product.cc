#include "compiler/schedule/matrix_product.h"

#include <algorithm>
#include <utility>

#include "compiler/loop/index_expr.h"

namespace kiln {
namespace {

using Factor = MatrixProduct::Factor;

constexpr int kWidest = 8;  // halves of 16 bytes

// The widest whole groups along the axis.
int WidestAlong(uint32_t axis, BufferId buffer, const SymExpr& offset,
                const NestFacts& facts, const std::vector<Buffer>& buffers) {
  int width = kWidest;
  while (width > 1 &&
         !(IsMultiple(facts.extents[axis], width) &&
           IsWideAccess(buffers[buffer], offset, {axis, width}, facts))) {
    width /= 2;
  }
  return width;
}

// The factor that `load` is, `axis` being the one that the other lacks.
std::optional<Factor> FactorOf(ScalarId load, uint32_t axis,
                               const LoopNest& nest, const NestFacts& facts,
                               const std::vector<Buffer>& buffers) {
  const uint32_t depth = facts.num_outer;
  const SymExpr& offset = facts.load_offset[load];
  const std::optional<LinearForm> form = AsLinear(offset);
  if (!form.has_value()) return std::nullopt;
  Factor factor{.load = load, .axis = axis};
  factor.stride = form->CoefficientOf(axis);
  factor.depth_stride = form->CoefficientOf(depth);
  factor.first = offset - factor.stride * SymExpr::Axis(axis) -
                 factor.depth_stride * SymExpr::Axis(depth);
  factor.along_depth = factor.depth_stride.Is(1);
  if (!factor.along_depth && !factor.stride.Is(1)) return std::nullopt;
  factor.widest = WidestAlong(factor.along_depth ? depth : axis,
                              nest.body[load].buffer, offset, facts, buffers);
  return factor;
}

// The load of a half type that is cast to `id`, an f32; none if it is something else.
std::optional<ScalarId> LoadOf(ScalarId id, const LoopNest& nest,
                               const NestFacts& facts) {
  const ScalarNode& cast = nest.body[id];
  if (cast.op != ScalarOp::kCast || cast.dtype != DType::kFloat32)
    return std::nullopt;
  const ScalarId load = cast.args[0];
  const ScalarNode& node = nest.body[load];
  if (node.op != ScalarOp::kLoad || !node.args.empty() || !IsHalf(node.dtype) ||
      HasIndirect(facts.load_offset[load])) {
    return std::nullopt;
  }
  return load;
}

// The nest's only reduction, if it is a sum in f32.
std::optional<ScalarId> SumIn(const LoopNest& nest) {
  std::optional<ScalarId> sum;
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    if (!IsReduction(node.op)) continue;
    if (sum.has_value() || node.op != ScalarOp::kReduce ||
        node.reduce != ReduceOp::kSum || node.dtype != DType::kFloat32) {
      return std::nullopt;
    }
    sum = id;
  }
  return sum;
}

// Whether the values at reduced points are the sum's terms alone, and every store
// sets an element.
bool HasNothingElse(const LoopNest& nest, const NestFacts& facts, ScalarId sum,
                    std::pair<ScalarId, ScalarId> loads) {
  const ScalarNode& term = nest.body[nest.body[sum].args[0]];
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const bool of_term = id == nest.body[sum].args[0] || id == term.args[0] ||
                         id == term.args[1] || id == loads.first ||
                         id == loads.second;
    if (facts.IsReduced(id) && !of_term) return false;
    if (id == sum || of_term) continue;
    for (const ScalarId arg : nest.body[id].args)
      if (facts.IsReduced(arg)) return false;
  }
  for (size_t s = 0; s < nest.stores.size(); ++s) {
    if (facts.StoreIsReduced(s) || nest.stores[s].mode != StoreMode::kSet)
      return false;
  }
  return true;
}

}  // namespace

std::optional<MatrixProduct> MatrixProductOf(
    const LoopNest& nest, const NestFacts& facts,
    const std::vector<Buffer>& buffers) {
  if (facts.num_axes != facts.num_outer + 1 || facts.num_outer < 2)
    return std::nullopt;
  const SymExpr& depth = facts.extents[facts.num_outer];
  if (!depth.is_constant() || depth.constant() < 1 ||
      depth.constant() > kMostDepth) {
    return std::nullopt;
  }
  const std::optional<ScalarId> sum = SumIn(nest);
  if (!sum.has_value()) return std::nullopt;
  const ScalarNode& term = nest.body[nest.body[*sum].args[0]];
  if (term.op != ScalarOp::kMul) return std::nullopt;
  std::optional<ScalarId> rows = LoadOf(term.args[0], nest, facts);
  std::optional<ScalarId> columns = LoadOf(term.args[1], nest, facts);
  if (!rows.has_value() || !columns.has_value() ||
      nest.body[*rows].dtype != nest.body[*columns].dtype ||
      !HasNothingElse(nest, facts, *sum, {*rows, *columns})) {
    return std::nullopt;
  }
  const uint32_t last = facts.num_outer - 1;
  const auto moves = [&](ScalarId load, uint32_t axis) {
    return (facts.axes[load] & AxisBit(axis)) != 0;
  };
  if (moves(*rows, last)) std::swap(rows, columns);
  if (moves(*rows, last) || !moves(*columns, last)) return std::nullopt;
  // Of several axes the innermost: its rows lie closest.
  uint32_t axis = last;
  while (axis > 0 && !(moves(*rows, axis - 1) && !moves(*columns, axis - 1)))
    --axis;
  if (axis == 0) return std::nullopt;
  const auto of_rows = FactorOf(*rows, axis - 1, nest, facts, buffers);
  const auto of_columns = FactorOf(*columns, last, nest, facts, buffers);
  if (!of_rows.has_value() || !of_columns.has_value()) return std::nullopt;
  return MatrixProduct{*sum, *of_rows, *of_columns, depth.constant()};
}

}  // namespace kiln
