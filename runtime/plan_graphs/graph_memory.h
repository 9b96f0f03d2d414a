#ifndef KILN_RUNTIME_PLAN_GRAPHS_GRAPH_MEMORY_H_
#define KILN_RUNTIME_PLAN_GRAPHS_GRAPH_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/mutex.h"
#include "runtime/caching_allocator.h"
#include "runtime/graph_tree/liveness.h"
#include "runtime/graph_tree/pool.h"
#include "runtime/tensor.h"

namespace kiln {

// The private pool of the graphs of one device, and who holds the results in it:
// what the graph tree needs of both, for tensors of the runtime.
//
// A storage is memory that results of graphs view. Tensors share it through
// their `owner`; the tree watches it. One that a run has allocated goes back to
// the pool with its last tensor; one that a replay has written is nobody's until
// Restore.
//
// Results may be dropped on any thread, and outlive this. The rest: one thread
// at a time.
class GraphMemory final : public graph_tree::Pool, public graph_tree::Liveness {
 public:
  explicit GraphMemory(std::shared_ptr<CachingAllocator> allocator);
  // No graph uses the pool any more.
  ~GraphMemory() override;
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  CachingAllocator& allocator() const;
  PoolId pool() const;

  // An owner for tensors on a new storage of the memory at `address`.
  enum class Block {
    kFreed,   // an allocated block of the pool: freed with the storage
    kNobodys  // a replay's
  };
  std::shared_ptr<void> NewStorage(const void* address, Block block);
  // Has the memory that a run allocated for its results go with storages: the
  // owners become those of storages. Nothing for memory that is no such.
  void Adopt(absl::Span<OutputValue> results);

  // Of a tensor whose owner is a storage's; else null.
  graph_tree::Storage StorageOf(const Tensor& tensor) const;
  // An owner of a live storage; null when it is not live.
  static std::shared_ptr<void> OwnerOf(graph_tree::Storage storage);
  // An owner of the live storage whose memory starts at `address`, the last made
  // if there are several; null without one. For callers who know results by
  // their addresses alone.
  std::shared_ptr<void> OwnerAt(const void* address) const;
  // Whether a storage is live that Invalidate was called for.
  bool HasInvalid() const;
  // What Invalidate said of the tensor's storage: FAILED_PRECONDITION.
  absl::Status CheckValid(const Tensor& tensor) const;

  absl::StatusOr<std::unique_ptr<graph_tree::PoolState>> Checkpoint() override;
  absl::Status Restore(const graph_tree::PoolState& state,
                       absl::Span<const graph_tree::Storage> live) override;
  absl::Status Free(const void* address) override;
  absl::StatusOr<std::vector<const void*>> AllocatedBlocks() override;
  // "plan 1: y, step 1" and the like, a line each (MemoryHolder).
  std::string OriginOf(absl::Span<const void* const> blocks) override;

  void Watch(graph_tree::Storage storage) override;
  void Unwatch(graph_tree::Storage storage) override;
  // `cached`: any pointer but null for a tensor that the recording holds. What is
  // not live has given its block back.
  bool IsLive(graph_tree::Storage storage,
              graph_tree::Tensor cached) const override;
  std::shared_ptr<void> Hold(graph_tree::Storage storage) override {
    return OwnerOf(storage);
  }
  void Invalidate(graph_tree::Storage storage, absl::string_view text) override;

  // Owners and tensors that share a live storage.
  static int64_t UsesOf(graph_tree::Storage storage);

 private:
  struct Books;
  struct Held;
  struct Entry;

  const std::shared_ptr<Books> books_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_GRAPH_MEMORY_H_
