#ifndef KILN_RUNTIME_BLOCK_POOL_H_
#define KILN_RUNTIME_BLOCK_POOL_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/device.h"

namespace kiln {

// A piece of a segment.
struct PoolBlock {
  int64_t bytes = 0;
  bool allocated = false;
  std::string holder;  // of an allocated one, for people; may be empty
};

// Memory that was taken from the driver in one piece, all of it in blocks.
struct PoolSegment {
  char* base = nullptr;
  int64_t bytes = 0;
  Stream stream = nullptr;  // that its blocks are used on
  bool small = false;       // for requests of at most BlockPool::kSmallBytes
  std::map<int64_t, PoolBlock> blocks;  // by their offset; side by side

  bool IsFree() const {
    return blocks.size() == 1 && !blocks.begin()->second.allocated;
  }
};

// What a pool was at one time: its segments, by address. A value.
using PoolState = std::vector<PoolSegment>;

// The books of one pool: segments, cut into blocks that are free or allocated.
// A request gets the smallest free block that fits on its stream, the one with
// the lowest address of equals, so that equal pools answer equal requests
// equally. Neighbours that are free become one. Knows nothing of the memory
// itself. One thread at a time.
class BlockPool {
 public:
  // Blocks are multiples of it.
  static constexpr int64_t kUnit = 512;
  // Requests up to here share segments of kSmallSegment bytes, so that a scalar
  // does not hold a large one; others up to kMiddleBytes share larger ones.
  static constexpr int64_t kSmallBytes = int64_t{1} << 20;
  static constexpr int64_t kSmallSegment = int64_t{2} << 20;
  static constexpr int64_t kMiddleBytes = int64_t{10} << 20;
  static constexpr int64_t kMiddleSegment = int64_t{20} << 20;

  // What a request of `bytes` takes, and the segment that is fetched for it.
  static int64_t BlockBytes(int64_t bytes);
  static int64_t SegmentBytes(int64_t bytes);

  // Null when no free block fits.
  void* Take(int64_t bytes, Stream stream, const std::string& holder);

  // Adds a segment of SegmentBytes(bytes), all free.
  void Add(void* base, int64_t bytes, Stream stream);

  // False when `memory` is the start of no allocated block.
  bool Give(const void* memory);

  // Removes the segments that are wholly free and returns them.
  std::vector<PoolSegment> RemoveFree();

  // By address.
  PoolState State() const;

  // Makes the blocks those of `state`. Segments that came since are free.
  //
  // FAILED_PRECONDITION  a segment of `state` is no longer here; nothing is done
  absl::Status SetState(const PoolState& state);

  // In multiples of kUnit; of all segments.
  int64_t allocated_bytes() const { return allocated_bytes_; }
  int64_t segment_bytes() const { return segment_bytes_; }
  bool has_segments() const { return !segments_.empty(); }

 private:
  // Orders free blocks so that the best fit is the first that is not less.
  struct FreeBlock {
    bool small;
    Stream stream;
    int64_t bytes;
    char* at;
    auto operator<=>(const FreeBlock&) const = default;
  };

  PoolSegment* SegmentOf(const void* memory);
  static FreeBlock Key(const PoolSegment& segment, int64_t offset,
                       int64_t bytes);
  void NoteFree(const PoolSegment& segment);

  std::map<const char*, PoolSegment> segments_;  // by base
  std::set<FreeBlock> free_;
  int64_t allocated_bytes_ = 0;
  int64_t segment_bytes_ = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_BLOCK_POOL_H_
