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

absl::StatusOr<void*> CachingAllocator::Take(PoolId id, int64_t bytes,
                                             Stream stream) {
  const auto at = pools_.find(id);
  if (at == pools_.end()) {
    return absl::InternalError(absl::StrCat("pool ", id, " is gone"));
  }
  BlockPool& blocks = at->second.blocks;
  const int64_t before = blocks.allocated_bytes();
  void* const memory =
      blocks.Take(bytes, stream, std::string(MemoryHolder::Of()));
  figures_.allocated_bytes += blocks.allocated_bytes() - before;
  figures_.most_allocated_bytes =
      std::max(figures_.most_allocated_bytes, figures_.allocated_bytes);
  return memory;
}

absl::StatusOr<void*> CachingAllocator::Allocate(int64_t bytes, Stream stream) {
  const PoolId id = PoolRouting::Of(*this);
  {
    MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(void* const memory, Take(id, bytes, stream));
    if (memory != nullptr) return memory;
  }
  ASSIGN_OR_RETURN(void* const base, Fetch(bytes));
  MutexLock lock(&mu_);
  // This thread is routed to it, so that it is still there.
  pools_[id].blocks.Add(base, bytes, stream);
  const char* const start = static_cast<const char*>(base);
  owners_[start] = {start + BlockPool::SegmentBytes(bytes), id};
  return Take(id, bytes, stream);
}

bool CachingAllocator::Reserve(int64_t segment_bytes) {
  MutexLock lock(&mu_);
  if (segment_bytes > limit_bytes_ - figures_.segment_bytes) return false;
  figures_.segment_bytes += segment_bytes;
  return true;
}

absl::StatusOr<void*> CachingAllocator::Fetch(int64_t bytes) {
  const int64_t wanted = BlockPool::SegmentBytes(bytes);
  absl::StatusOr<void*> base = absl::ResourceExhaustedError("over the limit");
  for (const bool again : {false, true}) {
    if (again && ReleaseCached() == 0) break;
    if (!Reserve(wanted)) continue;
    base = segments_.Allocate(wanted, nullptr);
    MutexLock lock(&mu_);
    if (base.ok()) {
      figures_.most_segment_bytes =
          std::max(figures_.most_segment_bytes, figures_.segment_bytes);
      return base;
    }
    figures_.segment_bytes -= wanted;
    if (base.status().code() != absl::StatusCode::kResourceExhausted) break;
  }
  const MemoryFigures now = figures();
  return absl::Status(
      base.status().code(),
      absl::StrCat("device memory: no segment of ", wanted, " bytes for ",
                   bytes, ": ", now.allocated_bytes, " are allocated of ",
                   now.segment_bytes, " taken",
                   limit_bytes_ == std::numeric_limits<int64_t>::max()
                       ? ""
                       : absl::StrCat(", limit ", limit_bytes_),
                   ": ", base.status().message()));
}

void CachingAllocator::Free(void* memory, int64_t, Stream) {
  std::vector<PoolSegment> gone;
  {
    MutexLock lock(&mu_);
    const auto at = PoolOf(memory);
    const int64_t before =
        at == pools_.end() ? 0 : at->second.blocks.allocated_bytes();
    if (at == pools_.end() || !at->second.blocks.Give(memory)) {
      ++figures_.unknown_frees;
      return;
    }
    figures_.allocated_bytes += at->second.blocks.allocated_bytes() - before;
    if (at->second.retired) gone = RemoveRetired(at);
  }
  GiveBack(gone);
}

PoolId CachingAllocator::MakePool() {
  MutexLock lock(&mu_);
  pools_[next_pool_];
  return next_pool_++;
}

void CachingAllocator::RetirePool(PoolId pool) {
  std::vector<PoolSegment> gone;
  {
    MutexLock lock(&mu_);
    const auto at = pools_.find(pool);
    if (at == pools_.end() || pool == kSharedPool) return;
    at->second.retired = true;
    gone = RemoveRetired(at);
  }
  GiveBack(gone);
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
  std::vector<PoolSegment> gone;
  {
    MutexLock lock(&mu_);
    gone = RemoveFree(pools_[kSharedPool]);
  }
  return GiveBack(gone);
}

std::vector<PoolSegment> CachingAllocator::RemoveFree(Pool& pool) {
  std::vector<PoolSegment> removed = pool.blocks.RemoveFree();
  for (const PoolSegment& segment : removed) owners_.erase(segment.base);
  return removed;
}

std::vector<PoolSegment> CachingAllocator::RemoveRetired(Pools::iterator at) {
  std::vector<PoolSegment> removed = RemoveFree(at->second);
  if (!at->second.blocks.has_segments()) pools_.erase(at);
  return removed;
}

int64_t CachingAllocator::GiveBack(const std::vector<PoolSegment>& segments) {
  if (segments.empty()) return 0;
  int64_t bytes = 0;
  for (const PoolSegment& segment : segments) {
    bytes += segment.bytes;
    segments_.Free(segment.base, segment.bytes, nullptr);
  }
  MutexLock lock(&mu_);
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
