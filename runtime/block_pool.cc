#include "runtime/block_pool.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

int64_t RoundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// What is left of a block stays one of its own when it is worth it: of a large
// segment a small rest would serve nobody.
bool IsWorthCutting(const PoolSegment& segment, int64_t rest) {
  return segment.small ? rest >= BlockPool::kUnit
                       : rest > BlockPool::kSmallBytes;
}

}  // namespace

int64_t BlockPool::BlockBytes(int64_t bytes) { return RoundUp(bytes, kUnit); }

int64_t BlockPool::SegmentBytes(int64_t bytes) {
  if (bytes <= kSmallBytes) return kSmallSegment;
  if (bytes <= kMiddleBytes) return kMiddleSegment;
  return RoundUp(bytes, kSmallSegment);
}

BlockPool::FreeBlock BlockPool::Key(const PoolSegment& segment, int64_t offset,
                                    int64_t bytes) {
  return {segment.small, segment.stream, bytes, segment.base + offset};
}

void* BlockPool::Take(int64_t bytes, Stream stream, const std::string& holder) {
  const int64_t wanted = BlockBytes(bytes);
  const bool small = bytes <= kSmallBytes;
  const auto best = free_.lower_bound({small, stream, wanted, nullptr});
  if (best == free_.end() || best->small != small || best->stream != stream) {
    return nullptr;
  }
  char* const at = best->at;
  free_.erase(best);
  PoolSegment& segment = *SegmentOf(at);
  const auto block = segment.blocks.find(at - segment.base);
  const int64_t rest = block->second.bytes - wanted;
  if (IsWorthCutting(segment, rest)) {
    block->second.bytes = wanted;
    segment.blocks[block->first + wanted] = {.bytes = rest};
    free_.insert(Key(segment, block->first + wanted, rest));
  }
  block->second.allocated = true;
  block->second.holder = holder;
  allocated_bytes_ += block->second.bytes;
  return at;
}

void BlockPool::Add(void* base, int64_t bytes, Stream stream) {
  PoolSegment segment = {.base = static_cast<char*>(base),
                         .bytes = SegmentBytes(bytes),
                         .stream = stream,
                         .small = bytes <= kSmallBytes};
  segment.blocks[0] = {.bytes = segment.bytes};
  segment_bytes_ += segment.bytes;
  NoteFree(segment);
  segments_[segment.base] = std::move(segment);
}

bool BlockPool::Give(const void* memory) {
  PoolSegment* const segment = SegmentOf(memory);
  if (segment == nullptr) return false;
  auto block =
      segment->blocks.find(static_cast<const char*>(memory) - segment->base);
  if (block == segment->blocks.end() || !block->second.allocated) return false;
  allocated_bytes_ -= block->second.bytes;
  block->second.allocated = false;
  block->second.holder.clear();
  const auto next = std::next(block);
  if (next != segment->blocks.end() && !next->second.allocated) {
    free_.erase(Key(*segment, next->first, next->second.bytes));
    block->second.bytes += next->second.bytes;
    segment->blocks.erase(next);
  }
  if (block != segment->blocks.begin() && !std::prev(block)->second.allocated) {
    const auto before = std::prev(block);
    free_.erase(Key(*segment, before->first, before->second.bytes));
    before->second.bytes += block->second.bytes;
    segment->blocks.erase(block);
    block = before;
  }
  free_.insert(Key(*segment, block->first, block->second.bytes));
  return true;
}

std::vector<PoolSegment> BlockPool::RemoveFree() {
  std::vector<PoolSegment> removed;
  for (auto at = segments_.begin(); at != segments_.end();) {
    PoolSegment& segment = at->second;
    if (!segment.IsFree()) {
      ++at;
      continue;
    }
    free_.erase(Key(segment, 0, segment.bytes));
    segment_bytes_ -= segment.bytes;
    removed.push_back(std::move(segment));
    at = segments_.erase(at);
  }
  return removed;
}

PoolState BlockPool::State() const {
  PoolState state;
  for (const auto& [base, segment] : segments_) state.push_back(segment);
  return state;
}

absl::Status BlockPool::SetState(const PoolState& state) {
  for (const PoolSegment& segment : state) {
    const auto at = segments_.find(segment.base);
    if (at == segments_.end() || at->second.bytes != segment.bytes) {
      return absl::FailedPreconditionError(
          absl::StrCat("pool: a segment of ", segment.bytes,
                       " bytes of the checkpoint was given back since"));
    }
  }
  for (auto& [base, segment] : segments_) {
    segment.blocks.clear();
    segment.blocks[0] = {.bytes = segment.bytes};
  }
  for (const PoolSegment& segment : state) {
    segments_[segment.base].blocks = segment.blocks;
  }
  free_.clear();
  allocated_bytes_ = 0;
  for (const auto& [base, segment] : segments_) NoteFree(segment);
  for (const auto& [base, segment] : segments_) {
    for (const auto& [offset, block] : segment.blocks) {
      if (block.allocated) allocated_bytes_ += block.bytes;
    }
  }
  return absl::OkStatus();
}

PoolSegment* BlockPool::SegmentOf(const void* memory) {
  const char* const at = static_cast<const char*>(memory);
  auto segment = segments_.upper_bound(at);
  if (segment == segments_.begin()) return nullptr;
  --segment;
  return at < segment->first + segment->second.bytes ? &segment->second
                                                     : nullptr;
}

void BlockPool::NoteFree(const PoolSegment& segment) {
  for (const auto& [offset, block] : segment.blocks) {
    if (!block.allocated) free_.insert(Key(segment, offset, block.bytes));
  }
}

}  // namespace kiln
