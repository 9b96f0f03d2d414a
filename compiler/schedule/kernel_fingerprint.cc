#include "compiler/schedule/kernel_fingerprint.h"

#include <algorithm>
#include <cstring>

namespace kiln {

inline void KernelFingerprint::AddInt(int64_t value) {
  // Nearly all are small: a byte then, and otherwise nine.
  constexpr uint8_t kLong = 0xff;
  constexpr size_t kMost = 1 + sizeof value;
  if (size_ + kMost > bytes_.size()) MakeRoom(kMost);
  if (value >= 0 && value < kLong) {
    bytes_[size_++] = static_cast<char>(value);
    return;
  }
  bytes_[size_] = static_cast<char>(kLong);
  std::memcpy(&bytes_[size_ + 1], &value, sizeof value);
  size_ += kMost;
}

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
  AddNest(nest);
}

void KernelFingerprint::AddNest(const LoopNest& nest) {
  constexpr size_t kBytesANode = 24;  // about
  MakeRoom((nest.body.size() + nest.stores.size()) * kBytesANode);
  order_.reserve(8);  // few nests access more
  if (sizes_ == FingerprintSizes::kKept) {
    AddInt(nest.origins.size());
    for (const std::string& origin : nest.origins) AddText(origin);
  }
  AddInt(nest.axes.size());
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const bool open = a == 0 && sizes_ == FingerprintSizes::kFirstOpen;
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

void KernelFingerprint::MakeRoom(size_t bytes) {
  if (size_ + bytes > bytes_.size()) bytes_.resize(2 * (size_ + bytes));
}

void KernelFingerprint::AddText(absl::string_view text) {
  AddInt(text.size());
  if (text.empty()) return;
  MakeRoom(text.size());
  std::memcpy(&bytes_[size_], text.data(), text.size());
  size_ += text.size();
}

void KernelFingerprint::AddExpr(const SymExpr& e) {
  // The terms of an expression in normal form tell it from all others.
  if (e.is_constant()) {
    AddInt(0);
    AddInt(e.constant());
    return;
  }
  AddInt(static_cast<int64_t>(e.sum().terms.size()));
  for (const SymExpr::Term& term : e.sum().terms) {
    AddInt(term.coefficient);
    AddInt(static_cast<int64_t>(term.atoms.size()));
    for (const SymExpr::Atom& atom : term.atoms) {
      if (atom.is_var()) {
        AddInt(static_cast<int64_t>(atom.var.kind));
        AddInt(atom.var.index);
      } else {
        constexpr int64_t kOperation = 16;  // behind the kinds of variables
        AddInt(kOperation + static_cast<int64_t>(atom.op));
        AddExpr(atom.operands->first);
        AddExpr(atom.operands->second);
      }
    }
  }
}

void KernelFingerprint::AddDims(const DimVector& dims) {
  AddInt(dims.size());
  for (const SymExpr& e : dims) {
    if (e.is_constant()) {
      AddInt(0);
      AddInt(e.constant());
    } else {
      AddExpr(e);
    }
  }
}

void KernelFingerprint::AddBuffer(BufferId id) {
  // Kernels have few buffers.
  const auto at = std::find(order_.begin(), order_.end(), id);
  AddInt(at - order_.begin());
  if (at != order_.end()) return;
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
  // The stream is an argument, so that layers with dropout share a kernel.
  const bool stream = node.op == ScalarOp::kRandom;
  if (stream) streams_.push_back(node.number.i);
  AddInt(static_cast<int>(node.op));
  AddInt(static_cast<int>(node.dtype));
  AddInt(static_cast<int>(node.reduce));
  AddInt(stream ? 0 : node.number.i);
  AddInt(static_cast<int64_t>(node.args.size()));
  for (const ScalarId arg : node.args) AddInt(arg);
  if (node.op == ScalarOp::kLoad) {
    AddBuffer(node.buffer);
    AddInt(node.last_read);
  }
  AddDims(node.index);
}

}  // namespace kiln
