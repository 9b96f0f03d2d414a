#include "compiler/codegen/write_kernels.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// All that WriteKernel reads of a kernel, as bytes, with buffers numbered by
// first use. Equal bytes are equal kernels.
class KernelFingerprint {
 public:
  KernelFingerprint(const PlannedKernel& kernel,
                    const std::vector<Buffer>& buffers)
      : buffers_(buffers) {
    const LoopNest& nest = kernel.nest;
    AddTiling(kernel.tiling);
    AddInt(nest.origins.size());
    for (const std::string& origin : nest.origins) AddText(origin);
    AddInt(nest.axes.size());
    for (const Axis& axis : nest.axes) {
      AddExpr(axis.extent);
      AddInt(axis.reduction);
    }
    AddInt(nest.body.size());
    for (const ScalarNode& node : nest.body) AddNode(node);
    AddInt(nest.stores.size());
    for (const Store& store : nest.stores) {
      AddBuffer(store.buffer);
      AddDims(store.index);
      AddInt(store.value);
      AddInt(static_cast<int>(store.mode));
      AddInt(store.mask);
    }
  }

  const std::string& bytes() const { return bytes_; }
  // The buffers named, in order of first use.
  const std::vector<BufferId>& buffers() const { return order_; }
  // The random streams, in order.
  const std::vector<int64_t>& streams() const { return streams_; }

 private:
  void AddInt(int64_t value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
  }
  void AddText(absl::string_view text) {
    AddInt(text.size());
    bytes_.append(text.data(), text.size());
  }
  void AddExpr(const SymExpr& e) {
    AddInt(e.is_constant());
    if (e.is_constant()) {
      AddInt(e.constant());
    } else {
      AddText(e.ToString());
    }
  }
  void AddDims(const DimVector& dims) {
    AddInt(dims.size());
    for (const SymExpr& e : dims) AddExpr(e);
  }
  void AddBuffer(BufferId id) {
    const auto [at, added] = number_.emplace(id, order_.size());
    AddInt(at->second);
    if (!added) return;
    order_.push_back(id);
    const Buffer& buffer = buffers_[id];
    AddInt(static_cast<int>(buffer.kind));
    AddInt(static_cast<int>(buffer.dtype));
    AddDims(buffer.sizes);
    AddDims(buffer.strides);
    AddExpr(buffer.offset);
    AddInt(buffer.alignment_bytes);
  }
  void AddNode(const ScalarNode& node) {
    AddInt(static_cast<int>(node.op));
    AddInt(static_cast<int>(node.dtype));
    AddInt(static_cast<int>(node.reduce));
    // A stream is an argument: layers with dropout share a kernel.
    const bool stream = node.op == ScalarOp::kRandom;
    if (stream) streams_.push_back(node.number.i);
    AddInt(stream ? 0 : node.number.i);
    AddInt(node.args.size());
    for (const ScalarId arg : node.args) AddInt(arg);
    if (node.op == ScalarOp::kLoad) AddBuffer(node.buffer);
    AddDims(node.index);
  }
  void AddTiling(const KernelTiling& tiling) {
    AddInt(static_cast<int>(tiling.mapping));
    AddInt(tiling.vector_width);
    AddInt(tiling.threads);
    AddInt(tiling.rows_per_block);
    AddInt(tiling.persistent);
    AddInt(tiling.elements_per_thread);
    AddInt(tiling.accumulators);
    AddInt(tiling.tile_axis);
  }

  const std::vector<Buffer>& buffers_;
  std::string bytes_;
  std::vector<BufferId> order_;
  std::vector<int64_t> streams_;
  absl::flat_hash_map<BufferId, size_t> number_;
};

struct Written {
  KernelSource source;
  std::vector<BufferId> buffers;  // in the fingerprint's order
};

// `written.source` with the buffers and random streams of an equal kernel. A
// scalar argument that is a number is a stream (nest_facts.cc); the others are
// symbols.
KernelSource WithArguments(const Written& written,
                           const KernelFingerprint& kernel) {
  KernelSource source = written.source;
  size_t next_stream = 0;
  for (KernelParam& param : source.params) {
    if (param.kind == KernelParam::Kind::kScalar &&
        param.scalar.is_constant() && next_stream < kernel.streams().size()) {
      param.scalar = kernel.streams()[next_stream++];
    }
    if (param.kind != KernelParam::Kind::kBuffer) continue;
    for (size_t i = 0; i < written.buffers.size(); ++i) {
      if (written.buffers[i] == param.buffer) {
        param.buffer = kernel.buffers()[i];
        break;
      }
    }
  }
  return source;
}

}  // namespace

absl::StatusOr<std::vector<KernelSource>> WriteKernels(const KernelPlan& plan,
                                                       const Target& target) {
  std::vector<KernelSource> sources;
  absl::flat_hash_map<std::string, Written> written;
  for (const PlannedStep& step : plan.steps) {
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    KernelFingerprint fingerprint(*kernel, plan.buffers);
    auto at = written.find(fingerprint.bytes());
    if (at == written.end()) {
      absl::StatusOr<KernelSource> source =
          WriteKernel(*kernel, plan.buffers, plan.shapes, target);
      if (!source.ok()) return Annotate(source.status(), kernel->label);
      at = written
               .emplace(fingerprint.bytes(),
                        Written{*std::move(source), fingerprint.buffers()})
               .first;
    }
    sources.push_back(WithArguments(at->second, fingerprint));
  }
  return sources;
}

}  // namespace kiln
