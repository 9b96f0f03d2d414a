#include "compiler/schedule/metrics.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

SymExpr AtMost(const SymExpr& accessed, const SymExpr& elements) {
  return Min(accessed, elements);
}

// Counts the bytes of a plan's steps, as num_bytes_accessed does. Must be given all steps
// in order.
class ByteCounter {
 public:
  explicit ByteCounter(const KernelPlan& plan)
      : plan_(plan), written_(plan.buffers.size(), 0) {}

  int64_t BytesOf(const PlannedStep& step) {
    charges_.clear();
    writes_.clear();
    if (const auto kernels = KernelsOf(step); !kernels.empty()) {
      const bool whole = kernels.size() > 1 || kernels[0].nest.merged > 0;
      for (const PlannedKernel& kernel : kernels)
        ChargeNest(kernel.nest, whole);
    } else if (const auto* flash = std::get_if<FlashKernel>(&step)) {
      ChargeFlash(*flash);
    } else if (const auto* call = std::get_if<LibraryCall>(&step)) {
      for (const View& view : call->inputs) Read(view.buffer, kWhole);
      for (const View& view : call->outputs)
        Write(view.buffer, Elements(view.sizes), Elements(view.sizes));
    } else {
      const BufferId buffer = std::get<Fill>(step).buffer;
      Write(buffer, kWhole, Elements(plan_.buffers[buffer].sizes));
    }
    return Sum();
  }

 private:
  static constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();

  struct Charge {
    int64_t accessed = 0;  // elements read or written
    int64_t changed = 0;   // elements written over existing data
  };

  int64_t Elements(const DimVector& sizes) const {
    return plan_.shapes.Hint(Product(sizes));
  }
  static int64_t Plus(int64_t a, int64_t b) {
    return a > kWhole - b ? kWhole : a + b;
  }

  bool HasData(BufferId b) const {
    const Buffer& buffer = plan_.buffers[b];
    return buffer.kind == BufferKind::kInput ||
           written_[b] >= std::max<int64_t>(1, Elements(buffer.sizes));
  }

  void Read(BufferId b, int64_t elements) {
    Charge& charge = charges_[b];
    charge.accessed = Plus(charge.accessed, elements);
  }
  // `anew` elements are written for the first time if the buffer has no data yet.
  void Write(BufferId b, int64_t elements, int64_t anew) {
    Read(b, elements);
    if (HasData(b)) {
      charges_[b].changed = Plus(charges_[b].changed, elements);
    }
    writes_.emplace_back(b, anew);
  }

  void ChargeFlash(const FlashKernel& kernel) {
    VisitArrays(kernel, [&](const View& view, bool writes) {
      if (writes) {
        Write(view.buffer, Elements(view.sizes), Elements(view.sizes));
      } else {
        Read(view.buffer, kWhole);
      }
    });
    if (kernel.sums == kNoBuffer) return;
    if (kernel.WritesSums()) {
      const int64_t all = Elements(plan_.buffers[kernel.sums].sizes);
      Write(kernel.sums, all, all);
    } else {
      Read(kernel.sums, kWhole);
    }
  }

  void ChargeNest(const LoopNest& nest, bool whole) {
    const int64_t points = whole ? kWhole : plan_.shapes.Hint(PointCount(nest));
    for (size_t i = 0; i < nest.body.size(); ++i) {
      const ScalarNode& node = nest.body[i];
      if (node.op != ScalarOp::kLoad) continue;
      // Loads of the same element under different masks count once.
      const bool again = std::any_of(
          nest.body.begin(), nest.body.begin() + static_cast<ptrdiff_t>(i),
          [&](const ScalarNode& other) {
            return other.op == ScalarOp::kLoad && other.buffer == node.buffer &&
                   other.index == node.index;
          });
      if (!again) Read(node.buffer, points);
    }
    for (const Store& store : nest.stores)
      Write(store.buffer, points, Reached(nest, store));
  }

  // The number of elements that the store writes: the points of the axes in its index.
  // 0 if that depends on data.
  int64_t Reached(const LoopNest& nest, const Store& store) const {
    if (store.mode != StoreMode::kSet || store.mask != Store::kNoMask) return 0;
    std::vector<bool> named(nest.axes.size(), false);
    bool by_data = false;
    for (const SymExpr& e : store.index) {
      e.VisitVars([&](Var var) {
        by_data |= var.kind == Var::Kind::kIndirect;
        if (var.kind == Var::Kind::kAxis) named[var.index] = true;
      });
    }
    SymExpr elements = by_data ? 0 : 1;
    for (size_t k = 0; k < named.size(); ++k) {
      if (named[k]) elements *= nest.axes[k].extent;
    }
    return plan_.shapes.Hint(elements);
  }

  int64_t Sum() {
    int64_t bytes = 0;
    for (const auto& [id, charge] : charges_) {
      const Buffer& buffer = plan_.buffers[id];
      if (buffer.kind == BufferKind::kConstant) continue;
      const int64_t size = Elements(buffer.sizes);
      bytes += SizeInBytes(buffer.dtype) * (std::min(charge.accessed, size) +
                                            std::min(charge.changed, size));
    }
    for (const auto& [id, anew] : writes_) written_[id] += anew;
    return bytes;
  }

  const KernelPlan& plan_;
  std::vector<int64_t>
      written_;  // by buffer: elements that earlier steps wrote
  // The current step.
  std::map<BufferId, Charge> charges_;
  std::vector<std::pair<BufferId, int64_t>> writes_;
};

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

KernelBytes BytesOf(const FlashKernel& kernel) {
  KernelBytes bytes;
  VisitArrays(kernel, [&](const View& view, bool writes) {
    SymExpr elements = 1;
    for (size_t d = 0; d < view.sizes.size(); ++d)
      if (!view.strides[d].Is(0)) elements = elements * view.sizes[d];
    (writes ? bytes.written : bytes.read) += elements * SizeInBytes(view.dtype);
  });
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
  ByteCounter counter(plan);
  for (const PlannedStep& step : plan.steps) {
    counts.bytes += counter.BytesOf(step);
    if (IsLaunch(step)) {
      ++counts.kernels;
    } else if (std::holds_alternative<LibraryCall>(step)) {
      ++counts.externs;
    } else {
      ++counts.fills;
    }
  }
  return counts;
}

}  // namespace kiln
