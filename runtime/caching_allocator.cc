#include "runtime/caching_allocator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

thread_local const PoolRouting* routing = nullptr;
thread_local absl::string_view holder_now;

}  // namespace

CachingAllocator::CachingAllocator(Allocator& segments, int64_t limit_bytes)
    : segments_(segments), limit_bytes_(limit_bytes) {
  MutexLock lock(&mu_);
  pools_[kSharedPool];
}

CachingAllocator::~CachingAllocator() {
  MutexLock lock(&mu_);
  for (const auto& [start, owner] : owners_) {
    segments_.Free(const_cast<char*>(start), owner.first - start, nullptr);
  }
}

absl::StatusOr<void*> CachingAllocator::Allocate(int64_t bytes, Stream stream) {
  const PoolId id = PoolRouting::Of(*this);
  const std::string holder(MemoryHolder::Of());
  MutexLock lock(&mu_);
  const auto at = pools_.find(id);
  if (at == pools_.end()) {
    return absl::InternalError(absl::StrCat("pool ", id, " is gone"));
  }
  BlockPool& blocks = at->second.blocks;
  const int64_t before = blocks.allocated_bytes();
  void* memory = blocks.Take(bytes, stream, holder);
  if (memory == nullptr) {
    ASSIGN_OR_RETURN(void* const base, Fetch(bytes));
    blocks.Add(base, bytes, stream);
    const char* const start = static_cast<const char*>(base);
    owners_[start] = {start + BlockPool::SegmentBytes(bytes), id};
    memory = blocks.Take(bytes, stream, holder);
  }
  figures_.allocated_bytes += blocks.allocated_bytes() - before;
  figures_.most_allocated_bytes =
      std::max(figures_.most_allocated_bytes, figures_.allocated_bytes);
  return memory;
}

// A segment for a request of `bytes`.
absl::StatusOr<void*> CachingAllocator::Fetch(int64_t bytes) {
  const int64_t wanted = BlockPool::SegmentBytes(bytes);
  absl::StatusOr<void*> base = absl::ResourceExhaustedError("over the limit");
  for (const bool again : {false, true}) {
    if (again && ReleaseCachedLocked() == 0) break;
    if (wanted > limit_bytes_ - figures_.segment_bytes) continue;
    base = segments_.Allocate(wanted, nullptr);
    if (base.ok() ||
        base.status().code() != absl::StatusCode::kResourceExhausted)
      break;
  }
  if (!base.ok()) {
    return absl::Status(
        base.status().code(),
        absl::StrCat("device memory: no segment of ", wanted, " bytes for ",
                     bytes, ": ", figures_.allocated_bytes,
                     " are allocated of ", figures_.segment_bytes, " taken",
                     limit_bytes_ == std::numeric_limits<int64_t>::max()
                         ? ""
                         : absl::StrCat(", limit ", limit_bytes_),
                     ": ", base.status().message()));
  }
  figures_.segment_bytes += wanted;
  figures_.most_segment_bytes =
      std::max(figures_.most_segment_bytes, figures_.segment_bytes);
  return base;
}

void CachingAllocator::Free(void* memory, int64_t, Stream) {
  MutexLock lock(&mu_);
  const auto at = PoolOf(memory);
  const int64_t before =
      at == pools_.end() ? 0 : at->second.blocks.allocated_bytes();
  if (at == pools_.end() || !at->second.blocks.Give(memory)) {
    ++figures_.unknown_frees;
    return;
  }
  figures_.allocated_bytes += at->second.blocks.allocated_bytes() - before;
  if (at->second.retired) EmptyRetired(at);
}

PoolId CachingAllocator::MakePool() {
  MutexLock lock(&mu_);
  pools_[next_pool_];
  return next_pool_++;
}

void CachingAllocator::RetirePool(PoolId pool) {
  MutexLock lock(&mu_);
  const auto at = pools_.find(pool);
  if (at == pools_.end() || pool == kSharedPool) return;
  at->second.retired = true;
  EmptyRetired(at);
}

void CachingAllocator::EmptyRetired(Pools::iterator at) {
  ReleaseFree(at->second);
  if (!at->second.blocks.has_segments()) pools_.erase(at);
}

PoolState CachingAllocator::State(PoolId pool) const {
  MutexLock lock(&mu_);
  const auto at = pools_.find(pool);
  return at == pools_.end() ? PoolState() : at->second.blocks.State();
}

absl::Status CachingAllocator::SetState(PoolId pool, const PoolState& state) {
  MutexLock lock(&mu_);
  const auto at = pools_.find(pool);
  if (at == pools_.end() || pool == kSharedPool) {
    return absl::InvalidArgumentError(
        absl::StrCat("pool ", pool, " is no private pool"));
  }
  BlockPool& blocks = at->second.blocks;
  const int64_t before = blocks.allocated_bytes();
  const absl::Status status = blocks.SetState(state);
  figures_.allocated_bytes += blocks.allocated_bytes() - before;
  return status;
}

int64_t CachingAllocator::ReleaseCached() {
  MutexLock lock(&mu_);
  return ReleaseCachedLocked();
}

int64_t CachingAllocator::ReleaseCachedLocked() {
  return ReleaseFree(pools_[kSharedPool]);
}

int64_t CachingAllocator::ReleaseFree(Pool& pool) {
  int64_t bytes = 0;
  for (const PoolSegment& segment : pool.blocks.RemoveFree()) {
    bytes += segment.bytes;
    owners_.erase(segment.base);
    segments_.Free(segment.base, segment.bytes, nullptr);
  }
  figures_.segment_bytes -= bytes;
  return bytes;
}

CachingAllocator::Pools::iterator CachingAllocator::PoolOf(const void* memory) {
  const char* const at = static_cast<const char*>(memory);
  auto owner = owners_.upper_bound(at);
  if (owner == owners_.begin()) return pools_.end();
  --owner;
  return at < owner->second.first ? pools_.find(owner->second.second)
                                  : pools_.end();
}

MemoryFigures CachingAllocator::figures() const {
  MutexLock lock(&mu_);
  return figures_;
}

std::string CachingAllocator::ToText() const {
  MutexLock lock(&mu_);
  std::string text;
  for (const auto& [id, pool] : pools_) {
    if (!pool.blocks.has_segments()) continue;
    absl::StrAppend(&text, "pool ", id, pool.retired ? ", retired" : "", ": ",
                    pool.blocks.allocated_bytes(), " of ",
                    pool.blocks.segment_bytes(), " bytes allocated\n");
    for (const PoolSegment& segment : pool.blocks.State()) {
      absl::StrAppend(&text, "  segment ",
                      absl::Hex(reinterpret_cast<uintptr_t>(segment.base)),
                      ", ", segment.bytes, " bytes, stream ",
                      absl::Hex(reinterpret_cast<uintptr_t>(segment.stream)),
                      "\n");
      for (const auto& [offset, block] : segment.blocks) {
        absl::StrAppend(&text, "    ", offset, ": ", block.bytes,
                        block.allocated ? " allocated" : " free",
                        block.holder.empty() ? "" : ", ", block.holder, "\n");
      }
    }
  }
  return text;
}

PoolRouting::PoolRouting(const CachingAllocator& allocator, PoolId pool)
    : allocator_(allocator), pool_(pool), outer_(routing) {
  routing = this;
}

PoolRouting::~PoolRouting() { routing = outer_; }

PoolId PoolRouting::Of(const CachingAllocator& allocator) {
  for (const PoolRouting* r = routing; r != nullptr; r = r->outer_) {
    if (&r->allocator_ == &allocator) return r->pool_;
  }
  return kSharedPool;
}

MemoryHolder::MemoryHolder(absl::string_view holder) : outer_(holder_now) {
  holder_now = holder;
}

MemoryHolder::~MemoryHolder() { holder_now = outer_; }

absl::string_view MemoryHolder::Of() { return holder_now; }

}  // namespace kiln
