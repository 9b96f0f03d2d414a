#include "compiler/schedule/jam_windows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/choose_variant.h"

namespace kiln {
namespace {

// Fewer elements of one buffer are no window.
constexpr int64_t kLeastCells = 8;
constexpr double kSavedLoads = 0.3;
constexpr double kSavedTime = 0.1;
// 32-bit registers of a thread's loads, which are all issued before the first is used.
// ptxas takes some 50 more: with 119 it took 159.
constexpr int64_t kMostWords = 160;

bool MovesAlong(const ScalarNode& load, uint32_t axis) {
  return std::any_of(load.index.begin(), load.index.end(),
                     [&](const SymExpr& e) {
                       return e.DependsOn({Var::Kind::kAxis, axis});
                     });
}

// Loads whose address moves along the axis: only those can be of elements that
// neighbours share because their windows overlap.
int64_t NumLoads(const LoopNest& nest, uint32_t axis) {
  return std::count_if(
      nest.body.begin(), nest.body.end(), [&](const ScalarNode& node) {
        return node.op == ScalarOp::kLoad && MovesAlong(node, axis);
      });
}

bool IsWindow(const LoopNest& nest) {
  absl::flat_hash_map<BufferId, int64_t> loads;
  for (const ScalarNode& node : nest.body) {
    if (IsReduction(node.op) || IsIndexCheck(node.op) ||
        node.op == ScalarOp::kRandom) {
      return false;
    }
    if (node.op == ScalarOp::kLoad) ++loads[node.buffer];
  }
  for (const Store& store : nest.stores) {
    if (store.mode != StoreMode::kSet || loads.contains(store.buffer))
      return false;
  }
  return std::any_of(loads.begin(), loads.end(), [](const auto& entry) {
    return entry.second >= kLeastCells;
  });
}

// What the loads of a thread stand in, masked ones too.
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

// Infinite for a nest that is no kernel.
double PriceOf(const LoopNest& nest, const std::vector<Buffer>& buffers,
               const ShapeEnv& shapes, const Target& target) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const absl::StatusOr<VariantChoice> choice =
      ChooseVariant(nest, buffers, shapes, target, {});
  if (!choice.ok() || !choice->config.price.fits) return kNone;
  const auto* points = std::get_if<CudaPoints>(&choice->config.variant);
  if (points == nullptr) return kNone;
  // Groups that begin anywhere are mostly loaded element by element.
  const bool loads_wide = points->peel == 0;
  if (loads_wide && LoadedWords(nest, buffers, *points) > kMostWords)
    return kNone;
  return choice->config.price.ns;
}

}  // namespace

LoopNest JamAxis(const LoopNest& nest, uint32_t axis, int64_t count) {
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
  return out;
}

bool JamWindows(LoopNest& nest, const std::vector<Buffer>& buffers,
                const ShapeEnv& shapes, const Target& target) {
  if (target.kind != TargetKind::kCuda || HasReduction(nest) ||
      nest.axes.size() < 2 || !IsWindow(nest)) {
    return false;
  }
  double least = PriceOf(nest, buffers, shapes, target) * (1 - kSavedTime);
  if (least == std::numeric_limits<double>::infinity()) return false;
  std::optional<LoopNest> best;
  for (uint32_t axis = 0; axis + 1 < nest.axes.size(); ++axis) {
    const SymExpr& extent = nest.axes[axis].extent;
    const int64_t loads = NumLoads(nest, axis);
    if (loads < kLeastCells) continue;
    for (const int64_t count : {2, 4}) {
      if (!extent.is_constant() || extent.constant() % count != 0) break;
      LoopNest jammed = JamAxis(nest, axis, count);
      if (double(NumLoads(jammed, axis)) >
          (1 - kSavedLoads) * double(count * loads)) {
        continue;
      }
      const double price = PriceOf(jammed, buffers, shapes, target);
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
