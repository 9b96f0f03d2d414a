#include "compiler/schedule/inplace_reuse.h"

#include "absl/container/flat_hash_map.h"

namespace kiln {

namespace {

// Whether the value of node `value` depends on node `on`.
bool DependsOn(const LoopNest& nest, ScalarId value, ScalarId on) {
  std::vector<bool> depends(value + 1, false);
  for (ScalarId i = on; i <= value; ++i) {
    depends[i] = i == on;
    for (const ScalarId arg : nest.body[i].args) {
      if (depends[arg]) depends[i] = true;
    }
  }
  return depends[value];
}

}  // namespace

bool MayBeTaken(const Buffer& buffer) {
  return buffer.kind == BufferKind::kInput && buffer.donated &&
         buffer.offset.Is(0) && buffer.alignment_bytes % 16 == 0;
}

std::vector<InplacePair> InplacePairs(const LoopNest& nest,
                                      const std::vector<Buffer>& buffers) {
  struct Loads {
    ScalarId only = 0;
    int count = 0;
  };
  absl::flat_hash_map<BufferId, Loads> loads;
  for (ScalarId i = 0; i < nest.body.size(); ++i) {
    const ScalarNode& node = nest.body[i];
    if (node.op != ScalarOp::kLoad) continue;
    Loads& entry = loads[node.buffer];
    entry.only = i;
    ++entry.count;
  }
  absl::flat_hash_map<BufferId, int> stores;
  for (const Store& store : nest.stores) ++stores[store.buffer];
  std::vector<InplacePair> pairs;
  for (const Store& store : nest.stores) {
    if (store.mode != StoreMode::kSet || store.mask != Store::kNoMask ||
        stores[store.buffer] != 1) {
      continue;
    }
    const Buffer& to = buffers[store.buffer];
    for (ScalarId i = 0; i < nest.body.size(); ++i) {
      const ScalarNode& node = nest.body[i];
      if (node.op != ScalarOp::kLoad || !node.args.empty()) continue;
      const Loads& entry = loads[node.buffer];
      const Buffer& from = buffers[node.buffer];
      if (entry.count != 1 || stores.contains(node.buffer) ||
          !(from.kind == BufferKind::kTemporary || MayBeTaken(from)) ||
          SizeInBytes(from.dtype) != SizeInBytes(to.dtype) ||
          from.sizes != to.sizes || !(node.index == store.index) ||
          !DependsOn(nest, store.value, i)) {
        continue;
      }
      pairs.push_back({node.buffer, store.buffer});
    }
  }
  return pairs;
}

std::vector<InplacePair> InplacePairs(absl::Span<const PlannedKernel> kernels,
                                      const std::vector<Buffer>& buffers) {
  if (kernels.size() == 1) return InplacePairs(kernels[0].nest, buffers);
  // The last kernel that reads a buffer, and whether another one does.
  struct Reader {
    size_t kernel = 0;
    bool several = false;
  };
  absl::flat_hash_map<BufferId, Reader> readers;
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (const ScalarNode& node : kernels[k].nest.body) {
      if (node.op != ScalarOp::kLoad) continue;
      const auto [at, first] = readers.emplace(node.buffer, Reader{k, false});
      at->second.several |= !first && at->second.kernel != k;
    }
  }
  std::vector<InplacePair> pairs;
  for (const PlannedKernel& kernel : kernels) {
    for (const InplacePair& pair : InplacePairs(kernel.nest, buffers)) {
      if (!readers[pair.read].several) pairs.push_back(pair);
    }
  }
  return pairs;
}

}  // namespace kiln
