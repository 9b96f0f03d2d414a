#include "compiler/schedule/jam_windows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/sym/sym_simplify.h"

namespace kiln {
namespace {

// A nest that loads fewer elements of one buffer has no window, or no row of one.
constexpr int64_t kLeastCells = 8;
constexpr int64_t kLeastRowCells = 3;
constexpr double kSavedLoads = 0.3;
constexpr double kSavedTime = 0.1;
// The 32-bit registers that a thread's loads may fill. All of them are issued before the
// first is used. ptxas needs some 50 more: for 119 it took 159.
constexpr int64_t kMostWords = 160;

bool MovesAlong(const ScalarNode& load, uint32_t axis) {
  return std::any_of(load.index.begin(), load.index.end(),
                     [&](const SymExpr& e) {
                       return e.DependsOn({Var::Kind::kAxis, axis});
                     });
}

// The loads whose address depends on the axis. Only those can be shared by neighbours
// because their windows overlap.
int64_t NumLoads(const LoopNest& nest, uint32_t axis) {
  return std::count_if(
      nest.body.begin(), nest.body.end(), [&](const ScalarNode& node) {
        return node.op == ScalarOp::kLoad && MovesAlong(node, axis);
      });
}

int64_t LeastCells(const LoopNest& nest) {
  return HasReduction(nest) ? kLeastRowCells : kLeastCells;
}

bool IsWindow(const LoopNest& nest) {
  absl::flat_hash_map<BufferId, int64_t> loads;
  for (const ScalarNode& node : nest.body) {
    const bool sums =
        node.op == ScalarOp::kReduce && node.reduce == ReduceOp::kSum;
    if ((IsReduction(node.op) && !sums) || IsIndexCheck(node.op) ||
        node.op == ScalarOp::kRandom) {
      return false;
    }
    if (node.op == ScalarOp::kLoad) ++loads[node.buffer];
  }
  for (const Store& store : nest.stores) {
    if (store.mode != StoreMode::kSet || loads.contains(store.buffer))
      return false;
  }
  return std::any_of(loads.begin(), loads.end(), [&](const auto& entry) {
    return entry.second >= LeastCells(nest);
  });
}

// The 32-bit registers that a thread's loads fill, masked loads included.
int64_t LoadedWords(const LoopNest& nest, const std::vector<Buffer>& buffers,
                    const CudaPoints& points) {
  const auto last = static_cast<uint32_t>(nest.axes.size() - 1);
  int64_t words = 0;
  for (const ScalarNode& node : nest.body) {
    if (node.op != ScalarOp::kLoad) continue;
    const int64_t width = MovesAlong(node, last) ? points.vector : 1;
    words += (SizeInBytes(buffers[node.buffer].dtype) * width + 3) / 4;
  }
  return words * points.unroll;
}

// The price of the nest as a kernel; infinite if it cannot be one, or if it needs too
// many registers.
double PriceOf(const LoopNest& nest, const std::vector<Buffer>& buffers,
               const ShapeEnv& shapes, const Target& target,
               const CandidateLimits& limits) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const absl::StatusOr<VariantChoice> choice =
      ChooseVariant(nest, buffers, shapes, target, {.limits = limits});
  if (!choice.ok() || !choice->config.price.fits) return kNone;
  if (HasReduction(nest)) return choice->config.price.ns;
  const auto* points = std::get_if<CudaPoints>(&choice->config.variant);
  if (points == nullptr) return kNone;
  // Peeled groups begin at any element, and are mostly loaded element by element.
  const bool loads_wide = points->peel == 0;
  if (loads_wide && LoadedWords(nest, buffers, *points) > kMostWords)
    return kNone;
  return choice->config.price.ns;
}

// The result of a comparison of two indices if it is the same at all points.
std::optional<bool> AlwaysSo(const ScalarNode& node, const BodyBuilder& body,
                             const SymBounds& bounds) {
  if (node.op != ScalarOp::kGe && node.op != ScalarOp::kLt) return std::nullopt;
  SymExpr sides[2];
  for (int k = 0; k < 2; ++k) {
    const ScalarNode& side = body.node(node.args[k]);
    if (side.op != ScalarOp::kIndex &&
        (side.op != ScalarOp::kConstant || IsFloat(side.dtype))) {
      return std::nullopt;
    }
    sides[k] = body.AsIndex(node.args[k]);
    if (HasIndirect(sides[k])) return std::nullopt;
  }
  const bool at_least = node.op == ScalarOp::kGe;
  if (ProveNonNegative(sides[0] - sides[1], bounds)) return at_least;
  if (ProveLt(sides[0], sides[1], bounds)) return !at_least;
  return std::nullopt;
}

// Removes masks that hold, or fail, at all points. Then loads of the same element are
// equal and can be merged.
void DropSettledMasks(LoopNest& nest, const ShapeEnv& shapes) {
  const std::vector<SymExpr> extents = ExtentsOf(nest);
  const SymBounds bounds{shapes, extents};
  BodyBuilder body;
  std::vector<SymExpr> axes;
  for (uint32_t a = 0; a < nest.axes.size(); ++a)
    axes.push_back(SymExpr::Axis(a));
  std::vector<ScalarId> ids;
  for (const ScalarNode& old : nest.body) {
    ScalarNode node = old;
    for (ScalarId& arg : node.args) arg = ids[arg];
    for (SymExpr& e : node.index) e = RewriteIndex(e, axes, ids, body);
    if (const std::optional<bool> always = AlwaysSo(node, body, bounds)) {
      ids.push_back(body.Bool(*always));
      continue;
    }
    if (node.op == ScalarOp::kAnd || node.op == ScalarOp::kWhere) {
      ids.push_back(body.Op(node.op, node.args));
      continue;
    }
    if (node.op == ScalarOp::kCast) {
      ids.push_back(body.Cast(node.dtype, node.args[0]));
      continue;
    }
    const bool settled = node.op == ScalarOp::kLoad && !node.args.empty() &&
                         body.node(node.args[0]).op == ScalarOp::kConstant;
    if (settled && body.node(node.args[0]).number.i != 0) {
      node.args.clear();
      node.number = {};
    } else if (settled && IsFloat(node.dtype)) {
      ids.push_back(body.Cast(
          node.dtype, body.Float(ComputeType(node.dtype), node.number.f)));
      continue;
    }
    ids.push_back(body.Add(std::move(node)));
  }
  for (Store& store : nest.stores) store = CopyStore(store, axes, ids, body);
  nest.body = body.Take();
  DropDeadNodes(nest);
}

}  // namespace

LoopNest JamAxis(const LoopNest& nest, uint32_t axis, int64_t count,
                 const ShapeEnv& shapes) {
  LoopNest out;
  TakeOrigins(nest, out);
  out.inlined = nest.inlined;
  out.merged = nest.merged;
  out.axes = nest.axes;
  out.axes[axis].extent = FloorDiv(nest.axes[axis].extent, count);
  BodyBuilder body;
  const auto keep = [](const ScalarNode&) -> std::optional<ScalarId> {
    return std::nullopt;
  };
  for (int64_t j = 0; j < count; ++j) {
    std::vector<SymExpr> axes;
    for (uint32_t a = 0; a < nest.axes.size(); ++a)
      axes.push_back(a == axis ? SymExpr::Axis(a) * count + j
                               : SymExpr::Axis(a));
    const std::vector<ScalarId> ids =
        CopyBody(nest.body, axes, Store::kNoMask, keep, body);
    for (const Store& store : nest.stores)
      out.stores.push_back(CopyStore(store, axes, ids, body));
  }
  out.body = body.Take();
  DropSettledMasks(out, shapes);
  return out;
}

bool JamWindows(LoopNest& nest, const std::vector<Buffer>& buffers,
                const ShapeEnv& shapes, const Target& target,
                const CandidateLimits& limits) {
  if (target.kind != TargetKind::kCuda || nest.axes.size() < 2 ||
      !IsWindow(nest)) {
    return false;
  }
  const std::vector<int64_t> counts = HasReduction(nest)
                                          ? std::vector<int64_t>{2, 4, 7, 8, 14}
                                          : std::vector<int64_t>{2, 4};
  const uint32_t outer = NumOuterAxes(nest);
  double least =
      PriceOf(nest, buffers, shapes, target, limits) * (1 - kSavedTime);
  if (least == std::numeric_limits<double>::infinity()) return false;
  std::optional<LoopNest> best;
  for (uint32_t axis = 0; axis + 1 < outer; ++axis) {
    const SymExpr& extent = nest.axes[axis].extent;
    const int64_t loads = NumLoads(nest, axis);
    if (loads < LeastCells(nest)) continue;
    for (const int64_t count : counts) {
      if (!extent.is_constant()) break;
      if (extent.constant() % count != 0) continue;
      LoopNest jammed = JamAxis(nest, axis, count, shapes);
      if (double(NumLoads(jammed, axis)) >
          (1 - kSavedLoads) * double(count * loads)) {
        continue;
      }
      const double price = PriceOf(jammed, buffers, shapes, target, limits);
      if (!(price < least)) continue;
      least = price;
      best = std::move(jammed);
    }
  }
  if (!best.has_value()) return false;
  nest = *std::move(best);
  return true;
}

}  // namespace kiln
