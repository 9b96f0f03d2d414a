#include "compiler/schedule/kernel_fingerprint.h"

#include <cstring>

namespace kiln {

KernelFingerprint::KernelFingerprint(const PlannedKernel& kernel,
                                     const std::vector<Buffer>& buffers,
                                     FingerprintSizes sizes)
    : KernelFingerprint(kernel.nest, buffers, sizes) {
  AddText(ToText(kernel.variant));
  for (const BufferId id :
       {kernel.workspace.partials, kernel.workspace.counters}) {
    if (id != kNoBuffer) AddBuffer(id);
  }
}

KernelFingerprint::KernelFingerprint(const LoopNest& nest,
                                     const std::vector<Buffer>& buffers,
                                     FingerprintSizes sizes)
    : buffers_(buffers), sizes_(sizes) {
  if (sizes == FingerprintSizes::kKept) {
    AddInt(nest.origins.size());
    for (const std::string& origin : nest.origins) AddText(origin);
  }
  AddInt(nest.axes.size());
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const bool open = a == 0 && sizes == FingerprintSizes::kFirstOpen;
    AddExpr(open ? SymExpr(0) : nest.axes[a].extent);
    AddInt(nest.axes[a].reduction);
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
    AddInt(store.stretch);
  }
}

void KernelFingerprint::AddInt(int64_t value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes_.append(raw, sizeof value);
}

void KernelFingerprint::AddText(absl::string_view text) {
  AddInt(text.size());
  bytes_.append(text.data(), text.size());
}

void KernelFingerprint::AddExpr(const SymExpr& e) {
  AddInt(e.is_constant());
  if (e.is_constant()) {
    AddInt(e.constant());
  } else {
    AddText(e.ToString());
  }
}

void KernelFingerprint::AddDims(const DimVector& dims) {
  AddInt(dims.size());
  for (const SymExpr& e : dims) AddExpr(e);
}

void KernelFingerprint::AddBuffer(BufferId id) {
  const auto [at, added] = number_.emplace(id, order_.size());
  AddInt(at->second);
  if (!added) return;
  order_.push_back(id);
  const Buffer& buffer = buffers_[id];
  AddInt(static_cast<int>(buffer.dtype));
  AddDims(buffer.strides);
  AddExpr(buffer.offset);
  AddInt(buffer.alignment_bytes);
  AddText(buffer.assertion);
  if (sizes_ == FingerprintSizes::kFirstOpen) return;
  AddInt(static_cast<int>(buffer.kind));
  AddDims(buffer.sizes);
}

void KernelFingerprint::AddNode(const ScalarNode& node) {
  AddInt(static_cast<int>(node.op));
  AddInt(static_cast<int>(node.dtype));
  AddInt(static_cast<int>(node.reduce));
  // The stream is an argument, so that layers with dropout share a kernel.
  const bool stream = node.op == ScalarOp::kRandom;
  if (stream) streams_.push_back(node.number.i);
  AddInt(stream ? 0 : node.number.i);
  AddInt(node.args.size());
  for (const ScalarId arg : node.args) AddInt(arg);
  if (node.op == ScalarOp::kLoad) AddBuffer(node.buffer);
  AddDims(node.index);
}

}  // namespace kiln
