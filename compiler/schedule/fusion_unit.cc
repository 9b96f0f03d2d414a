#include "compiler/schedule/fusion_unit.h"

#include <algorithm>
#include <utility>

#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

NestAccess MakeAccess(BufferId id, const DimVector& index, bool store,
                      bool plain, const std::vector<Buffer>& buffers,
                      const ShapeEnv& shapes) {
  const Buffer& buffer = buffers[id];
  NestAccess access{id, store, plain};
  access.address = AddressOf(index, buffer.strides);
  access.index = index;
  access.bytes = std::max<int64_t>(1, shapes.Hint(Product(buffer.sizes))) *
                 SizeInBytes(buffer.dtype);
  return access;
}

}  // namespace

FusionUnit MakeFusionUnit(LoopNest nest, int nests,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes) {
  FusionUnit unit;
  unit.nests = nests;
  for (const Axis& axis : nest.axes) {
    (axis.reduction ? unit.reduced_points : unit.outer_points) *=
        shapes.Hint(axis.extent);
    unit.reduces |= axis.reduction;
  }
  unit.accesses.reserve(
      nest.stores.size() +
      static_cast<size_t>(std::count_if(
          nest.body.begin(), nest.body.end(),
          [](const ScalarNode& node) { return node.op == ScalarOp::kLoad; })));
  for (const ScalarNode& node : nest.body) {
    unit.scans |= IsAlongRow(node.op);
    if (node.op != ScalarOp::kLoad) continue;
    unit.accesses.push_back(MakeAccess(node.buffer, node.index, false,
                                       node.args.empty(), buffers, shapes));
  }
  for (const Store& store : nest.stores) {
    const bool atomic = IsAtomic(store.mode);
    unit.atomic |= atomic;
    unit.accesses.push_back(MakeAccess(store.buffer, store.index, true,
                                       !atomic && store.mask == Store::kNoMask,
                                       buffers, shapes));
  }
  for (const NestAccess& access : unit.accesses) unit.bytes += access.bytes;
  unit.nest = std::move(nest);
  return unit;
}

}  // namespace kiln
