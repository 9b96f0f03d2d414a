#ifndef KILN_RUNTIME_GRAPH_TREE_POOL_H_
#define KILN_RUNTIME_GRAPH_TREE_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/graph_tree/liveness.h"

// The private memory of one device's graphs, as the tree needs it. All warm-ups
// and recordings of the tree allocate here, on one stream.
//
// A replay uses memory without allocating it, so after one the pool's books
// are out of date. The tree then restores the state that the pool had when the
// graph was recorded.

namespace kiln::graph_tree {

// The pool's segments and blocks at one time. The pool's own.
class PoolState {
 public:
  virtual ~PoolState() = default;
};

class Pool {
 public:
  virtual ~Pool() = default;

  virtual absl::StatusOr<std::unique_ptr<PoolState>> Checkpoint() = 0;

  // Makes the blocks those of `state`, with its allocated and free ones. Each
  // of `live`, whose memory is an allocated block of that state, owns its
  // block from now on: the block is freed when the storage dies, or at once where
  // another thread has let it die meanwhile. Memory that was allocated since
  // `state` is forgotten.
  virtual absl::Status Restore(const PoolState& state,
                               absl::Span<const Storage> live) = 0;

  // Frees the allocated block at `address`, which no storage owns.
  virtual absl::Status Free(const void* address) = 0;

  // After a warm-up or a recording that failed: whether this pool is of no more
  // use, since captures fail in it or an error holds blocks that no tree knows.
  // Then it is another pool from now on, and the tree drops what it has recorded;
  // live storages keep their blocks.
  virtual bool TakeAnother() { return false; }

  // The addresses of all allocated blocks, in any order. Asked after each
  // recording. Slow.
  virtual absl::StatusOr<std::vector<const void*>> AllocatedBlocks() = 0;

  // Who allocated these blocks, which the tree does not know, and how: lines for
  // people, behind the message of them. Empty: nothing is known. Slow.
  virtual std::string OriginOf(absl::Span<const void* const>) { return ""; }
};

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_POOL_H_
