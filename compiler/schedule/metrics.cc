#include "compiler/schedule/metrics.h"

#include <map>

#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

SymExpr AtMost(const SymExpr& accessed, const SymExpr& elements) {
  return Min(accessed, elements);
}

}  // namespace

KernelBytes BytesOf(const LoopNest& nest, const std::vector<Buffer>& buffers) {
  struct Accesses {
    int64_t loads = 0;
    int64_t stores = 0;
  };
  std::map<BufferId, Accesses> accesses;
  for (const ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kLoad) ++accesses[node.buffer].loads;
  }
  for (const Store& store : nest.stores) ++accesses[store.buffer].stores;
  const SymExpr points = PointCount(nest);
  KernelBytes bytes;
  for (const auto& [id, count] : accesses) {
    const Buffer& buffer = buffers[id];
    const SymExpr moved =
        AtMost(points * (count.loads + count.stores), Product(buffer.sizes)) *
        SizeInBytes(buffer.dtype);
    (count.stores > 0 ? bytes.written : bytes.read) += moved;
  }
  return bytes;
}

KernelBytes BytesOf(absl::Span<const PlannedKernel> kernels,
                    const std::vector<Buffer>& buffers) {
  KernelBytes all;
  for (const PlannedKernel& kernel : kernels) {
    const KernelBytes bytes = BytesOf(kernel.nest, buffers);
    all.read += bytes.read;
    all.written += bytes.written;
  }
  return all;
}

LaunchCounts CountLaunches(const KernelPlan& plan) {
  LaunchCounts counts;
  for (const PlannedStep& step : plan.steps) {
    if (const auto kernels = KernelsOf(step); !kernels.empty()) {
      ++counts.kernels;
      const KernelBytes bytes = BytesOf(kernels, plan.buffers);
      counts.bytes += plan.shapes.Hint(bytes.read + bytes.written);
    } else if (std::holds_alternative<ExternCall>(step)) {
      ++counts.externs;
    } else {
      ++counts.fills;
    }
  }
  return counts;
}

}  // namespace kiln
