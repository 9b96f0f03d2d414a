#include "compiler/schedule/choose_tiling.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

// How accesses move along one axis, weighed by bytes an element.
struct AxisTraffic {
  int64_t contiguous = 0;
  int64_t strided = 0;
  int64_t still = 0;
};

SymExpr CoefficientOf(const SymExpr& address, uint32_t axis) {
  // Of an address that is not linear: by differences at the axis alone.
  const auto form = AsLinear(address);
  if (form.has_value()) return form->CoefficientOf(axis);
  const SymExpr moved = address.Substitute([&](Var v) {
    return v.kind == Var::Kind::kAxis && v.index == axis
               ? SymExpr::Axis(axis) + 1
               : SymExpr::Of(v);
  });
  return moved - address;
}

template <typename Visit>
void VisitAccesses(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   Visit visit) {
  for (const ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kLoad) {
      visit(node.index[0], SizeInBytes(buffers[node.buffer].dtype));
    }
  }
  for (const Store& store : nest.stores) {
    visit(store.index[0], SizeInBytes(buffers[store.buffer].dtype));
  }
}

AxisTraffic TrafficAlong(const LoopNest& nest,
                         const std::vector<Buffer>& buffers, uint32_t axis) {
  AxisTraffic traffic;
  VisitAccesses(nest, buffers, [&](const SymExpr& address, int64_t bytes) {
    const SymExpr c = CoefficientOf(address, axis);
    if (c.Is(0)) {
      traffic.still += bytes;
    } else if (c.Is(1)) {
      traffic.contiguous += bytes;
    } else {
      traffic.strided += bytes;
    }
  });
  return traffic;
}

bool Divides(const SymExpr& e, int64_t n) {
  return n == 1 || ExactQuotient(e, n).has_value();
}

// The widest access that every contiguous address allows: its other terms and
// the axis' extent are multiples of it.
int VectorWidth(const LoopNest& nest, const std::vector<Buffer>& buffers,
                uint32_t axis) {
  int64_t widest = 1;
  VisitAccesses(nest, buffers, [&](const SymExpr& address, int64_t bytes) {
    if (CoefficientOf(address, axis).Is(1)) widest = std::max(widest, bytes);
  });
  int64_t width = std::clamp<int64_t>(16 / widest, 1, 8);
  VisitAccesses(nest, buffers, [&](const SymExpr& address, int64_t) {
    const auto form = AsLinear(address);
    while (width > 1) {
      bool fits = Divides(nest.axes[axis].extent, width);
      if (form.has_value() && form->CoefficientOf(axis).Is(1)) {
        fits = fits && Divides(form->offset, width);
        for (const auto& [other, c] : form->terms) {
          if (other != axis) fits = fits && Divides(c, width);
        }
      }
      if (fits) break;
      width /= 2;
    }
  });
  return static_cast<int>(width);
}

int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

// An axis that some accesses run along contiguously while they stride along
// the last one; -1: none worth a tile.
int TransposedAxis(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   const ShapeEnv& shapes) {
  const uint32_t last = static_cast<uint32_t>(nest.axes.size()) - 1;
  if (shapes.Hint(nest.axes[last].extent) < 16) return -1;
  int best = -1;
  int64_t most = 0;
  for (uint32_t axis = 0; axis < last; ++axis) {
    if (shapes.Hint(nest.axes[axis].extent) < 16) continue;
    int64_t bytes = 0;
    VisitAccesses(nest, buffers, [&](const SymExpr& address, int64_t size) {
      const SymExpr along = CoefficientOf(address, last);
      if (CoefficientOf(address, axis).Is(1) && !along.Is(0) && !along.Is(1)) {
        bytes += size;
      }
    });
    if (bytes > most) {
      most = bytes;
      best = static_cast<int>(axis);
    }
  }
  return best;
}

void TileRow(const LoopNest& nest, const std::vector<Buffer>& buffers,
             const ShapeEnv& shapes, const Target& target, int64_t max_row,
             KernelTiling& tiling) {
  const uint32_t last = static_cast<uint32_t>(nest.axes.size()) - 1;
  SymExpr row = 1;
  for (const Axis& axis : nest.axes) {
    if (axis.reduction) row *= axis.extent;
  }
  tiling.mapping = Mapping::kRow;
  tiling.vector_width = VectorWidth(nest, buffers, last);
  const int64_t elements = std::max<int64_t>(shapes.Hint(row), 1);
  tiling.persistent = shapes.Range(row).max <= max_row;
  // A thread takes a few accesses of a row; a short row shares its warp's
  // block with others.
  const int64_t accesses =
      (elements + tiling.vector_width - 1) / tiling.vector_width;
  const int64_t threads_a_row =
      std::clamp<int64_t>(PowerOfTwoAtLeast((accesses + 1) / 2), 32,
                          std::min<int64_t>(512, target.max_threads_per_block));
  tiling.rows_per_block =
      static_cast<int>(std::max<int64_t>(1, 128 / threads_a_row));
  tiling.threads = static_cast<int>(threads_a_row * tiling.rows_per_block);
  tiling.elements_per_thread =
      static_cast<int>((elements + threads_a_row - 1) / threads_a_row);
}

}  // namespace

KernelTiling ChooseTiling(const LoopNest& nest,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes, const Target& target,
                          int64_t max_row) {
  KernelTiling tiling;
  const uint32_t outer = NumOuterAxes(nest);
  const uint32_t axes = static_cast<uint32_t>(nest.axes.size());
  const bool scans =
      std::any_of(nest.body.begin(), nest.body.end(),
                  [](const ScalarNode& n) { return n.op == ScalarOp::kScan; });
  if (scans) {
    tiling.mapping = Mapping::kSerial;
    return tiling;
  }
  if (outer < axes) {
    const AxisTraffic row = TrafficAlong(nest, buffers, axes - 1);
    const AxisTraffic column =
        outer > 0 ? TrafficAlong(nest, buffers, outer - 1) : AxisTraffic{};
    if (outer > 0 && column.contiguous > row.contiguous) {
      tiling.mapping = Mapping::kColumn;
      tiling.vector_width = 1;
      tiling.threads = 256;
      tiling.rows_per_block = 8;  // 32 neighbours, 8 shares of the reduction
      return tiling;
    }
    TileRow(nest, buffers, shapes, target, max_row, tiling);
    return tiling;
  }
  if (axes == 0) return tiling;
  tiling.vector_width = VectorWidth(nest, buffers, axes - 1);
  tiling.elements_per_thread = tiling.vector_width;
  if (axes > 1) {
    tiling.tile_axis = TransposedAxis(nest, buffers, shapes);
    if (tiling.tile_axis >= 0) tiling.mapping = Mapping::kTile2d;
  }
  return tiling;
}

}  // namespace kiln
