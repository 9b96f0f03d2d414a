#ifndef KILN_RUNTIME_CACHING_ALLOCATOR_H_
#define KILN_RUNTIME_CACHING_ALLOCATOR_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"

namespace kiln {

// Number of a pool. kSharedPool serves whoever is routed to no other.
using PoolId = int;
inline constexpr PoolId kSharedPool = 0;

struct MemoryFigures {
  int64_t allocated_bytes = 0;  // in blocks that are out
  int64_t segment_bytes = 0;    // taken from the driver
  int64_t most_allocated_bytes = 0;
  int64_t most_segment_bytes = 0;
  int64_t unknown_frees = 0;  // of memory that no allocated block starts at
};

// Memory that is taken from the driver in segments and kept: what is freed
// serves the next request on its stream, at once and without the driver.
//
// A private pool has segments of its own. What a captured graph allocated is in
// one, so that nobody else gets the memory that the graph will write again; its
// segments stay until the pool is retired. A replay writes memory without
// allocating it: SetState then makes the pool what it was at the end of the
// capture. Thread-safe.
class CachingAllocator final : public Allocator {
 public:
  // `segments` outlives this. `limit_bytes`: of segments at once; too low and
  // programs run out of memory that the device has, too high and others do.
  explicit CachingAllocator(
      Allocator& segments,
      int64_t limit_bytes = std::numeric_limits<int64_t>::max());
  // All memory has been freed, or is not used again.
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // From the pool that this thread is routed to. Before it fails, it gives all
  // that is cached back to the driver and asks once more. While the driver is asked,
  // other threads go on.
  absl::StatusOr<void*> Allocate(int64_t bytes, Stream stream) override
      ABSL_LOCKS_EXCLUDED(mu_);
  // On any thread. `stream` is not looked at: a block is bound to its own. Of
  // memory that is none of its allocated blocks nothing is freed, and counted.
  void Free(void* memory, int64_t bytes, Stream stream) override
      ABSL_LOCKS_EXCLUDED(mu_);

  PoolId MakePool() ABSL_LOCKS_EXCLUDED(mu_);
  // No graph uses the pool any more and no thread is routed to it: its segments
  // go back to the driver as soon as they are free.
  void RetirePool(PoolId pool) ABSL_LOCKS_EXCLUDED(mu_);

  // For people, and to be set again.
  PoolState State(PoolId pool) const ABSL_LOCKS_EXCLUDED(mu_);
  // Makes a private pool's blocks those of `state`: memory that was allocated
  // since is forgotten, memory that was freed since is allocated again. See
  // BlockPool::SetState for errors.
  absl::Status SetState(PoolId pool, const PoolState& state)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Gives free segments back to the driver, but not those of private pools.
  // Returns their bytes.
  int64_t ReleaseCached() ABSL_LOCKS_EXCLUDED(mu_);

  MemoryFigures figures() const ABSL_LOCKS_EXCLUDED(mu_);

  // Pools, segments and blocks with who holds them, a line each.
  std::string ToText() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Pool {
    BlockPool blocks;
    bool retired = false;
  };
  using Pools = std::map<PoolId, Pool>;

  // Null: no free block fits.
  absl::StatusOr<void*> Take(PoolId id, int64_t bytes, Stream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A segment for a request of `bytes`, counted.
  absl::StatusOr<void*> Fetch(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether the limit has room for a segment, which is counted from then on.
  bool Reserve(int64_t segment_bytes) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes a pool's free segments, or all of a retired one that may go, out of the
  // books.
  std::vector<PoolSegment> RemoveFree(Pool& pool)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<PoolSegment> RemoveRetired(Pools::iterator at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives them back to the driver; their bytes, which count no more.
  int64_t GiveBack(const std::vector<PoolSegment>& segments)
      ABSL_LOCKS_EXCLUDED(mu_);
  Pools::iterator PoolOf(const void* memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Allocator& segments_;
  const int64_t limit_bytes_;
  mutable Mutex mu_;
  Pools pools_ ABSL_GUARDED_BY(mu_);
  // The end of each segment and its pool, by its start.
  std::map<const char*, std::pair<const char*, PoolId>> owners_
      ABSL_GUARDED_BY(mu_);
  PoolId next_pool_ ABSL_GUARDED_BY(mu_) = kSharedPool + 1;
  MemoryFigures figures_ ABSL_GUARDED_BY(mu_);
};

// While alive, what this thread allocates from `allocator` is of `pool`, on
// whatever stream. The innermost counts. Ends on the thread that began it.
class PoolRouting {
 public:
  PoolRouting(const CachingAllocator& allocator, PoolId pool);
  ~PoolRouting();
  PoolRouting(const PoolRouting&) = delete;
  PoolRouting& operator=(const PoolRouting&) = delete;

  // Where this thread's requests of `allocator` go.
  static PoolId Of(const CachingAllocator& allocator);

 private:
  const CachingAllocator& allocator_;
  const PoolId pool_;
  const PoolRouting* const outer_;
};

// While alive, what this thread allocates is told to be held by `holder`, such
// as "gpt2: y of kiln_poi_fused_add_0". The innermost counts.
class MemoryHolder {
 public:
  explicit MemoryHolder(absl::string_view holder);
  ~MemoryHolder();
  MemoryHolder(const MemoryHolder&) = delete;
  MemoryHolder& operator=(const MemoryHolder&) = delete;

  static absl::string_view Of();  // this thread's; empty without one

 private:
  const absl::string_view outer_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_CACHING_ALLOCATOR_H_
