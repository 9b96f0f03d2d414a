#include "compiler/schedule/loop_order.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

// The strides of one access by axis, and its weight.
struct Strides {
  absl::InlinedVector<int64_t, 6> by_axis;
  int64_t weight = 0;
};

std::vector<Strides> StridesOf(const LoopNest& nest,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes) {
  std::vector<Strides> all;
  const auto add = [&](const SymExpr& address, BufferId buffer, bool store) {
    const auto form = AsLinear(address);
    if (!form.has_value()) return;
    Strides strides;
    strides.by_axis.assign(nest.axes.size(), 0);
    strides.weight = SizeInBytes(buffers[buffer].dtype);
    for (const auto& [axis, coefficient] : form->terms) {
      strides.by_axis[axis] = std::abs(shapes.Hint(coefficient));
      // The weight is the bytes that this access moves: the points of the axes that its
      // address depends on.
      strides.weight *=
          std::max<int64_t>(1, shapes.Hint(nest.axes[axis].extent));
    }
    // A scattered write costs twice as much as a scattered read.
    if (store) strides.weight *= 2;
    all.push_back(std::move(strides));
  };
  for (const ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kLoad) add(node.index[0], node.buffer, false);
  }
  for (const Store& store : nest.stores) {
    add(store.index[0], store.buffer, true);
  }
  std::stable_sort(
      all.begin(), all.end(),
      [](const Strides& a, const Strides& b) { return a.weight > b.weight; });
  return all;
}

// Whether axis `a` belongs outside of axis `b`.
bool Outside(uint32_t a, uint32_t b, const std::vector<Strides>& strides) {
  for (const Strides& s : strides) {
    if (s.by_axis[a] == 0 || s.by_axis[b] == 0) continue;
    if (s.by_axis[a] != s.by_axis[b]) return s.by_axis[a] > s.by_axis[b];
  }
  return false;
}

}  // namespace

LoopNest OrderAxes(LoopNest nest, const std::vector<Buffer>& buffers,
                   const ShapeEnv& shapes) {
  const bool scans =
      std::any_of(nest.body.begin(), nest.body.end(),
                  [](const ScalarNode& n) { return IsAlongRow(n.op); });
  if (scans || nest.axes.size() < 2) return nest;
  const std::vector<Strides> strides = StridesOf(nest, buffers, shapes);
  std::vector<uint32_t> order;
  for (uint32_t axis = 0; axis < nest.axes.size(); ++axis) {
    // Insertion sort keeps the old order of axes that the strides do not order, and does
    // not need a strict weak ordering.
    size_t at = order.size();
    while (at > 0 &&
           nest.axes[order[at - 1]].reduction == nest.axes[axis].reduction &&
           Outside(axis, order[at - 1], strides)) {
      --at;
    }
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), axis);
  }
  if (std::is_sorted(order.begin(), order.end())) return nest;
  return PermuteAxes(nest, order, shapes);
}

}  // namespace kiln
