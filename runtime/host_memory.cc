#include "runtime/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Blocks remembered at most; a search looks at each.
constexpr size_t kMaxKeptBlocks = 1024;

// Copies rows of the innermost dimension for element types of one size.
template <typename Element>
void CopyRow(const char* from, int64_t from_stride, char* to, int64_t to_stride,
             int64_t count) {
  const Element* source = reinterpret_cast<const Element*>(from);
  Element* target = reinterpret_cast<Element*>(to);
  for (int64_t i = 0; i < count; ++i) {
    target[i * to_stride] = source[i * from_stride];
  }
}

using RowCopier = void (*)(const char*, int64_t, char*, int64_t, int64_t);

RowCopier RowCopierFor(int64_t element_bytes) {
  if (element_bytes == 1) return CopyRow<uint8_t>;
  if (element_bytes == 2) return CopyRow<uint16_t>;
  if (element_bytes == 4) return CopyRow<uint32_t>;
  return CopyRow<uint64_t>;
}

void CopyDims(const StridedView& from, const StridedView& to, size_t dim,
              const char* source, char* target) {
  if (from.sizes.empty()) {
    std::memcpy(target, source, from.element_bytes);
    return;
  }
  const int64_t count = from.sizes[dim];
  const int64_t bytes = from.element_bytes;
  if (dim + 1 == from.sizes.size()) {
    if (from.strides[dim] == 1 && to.strides[dim] == 1) {
      std::memcpy(target, source, count * bytes);
    } else {
      RowCopierFor(bytes)(source, from.strides[dim], target, to.strides[dim],
                          count);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    CopyDims(from, to, dim + 1, source + i * from.strides[dim] * bytes,
             target + i * to.strides[dim] * bytes);
  }
}

}  // namespace

HostAllocator::HostAllocator(int64_t max_kept_bytes)
    : max_kept_bytes_(max_kept_bytes) {}

HostAllocator::~HostAllocator() {
  for (const Block& block : kept_) std::free(block.memory);
}

int64_t HostAllocator::RoundedBytes(int64_t bytes) {
  const int64_t power = int64_t{1}
                        << (absl::bit_width(static_cast<uint64_t>(bytes)) - 1);
  const int64_t step = std::max(kAlignment, power / 8);
  return (bytes + step - 1) / step * step;
}

absl::StatusOr<void*> HostAllocator::Allocate(int64_t bytes, Stream) {
  const int64_t rounded = RoundedBytes(bytes);
  {
    MutexLock lock(&mu_);
    // The newest first: it is the likeliest to be in a cache.
    for (size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i].bytes != rounded) continue;
      void* const memory = kept_[i].memory;
      kept_.erase(kept_.begin() + i);
      kept_bytes_ -= rounded;
      return memory;
    }
  }
  void* const memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host memory: no ", rounded, " bytes"));
  }
  return memory;
}

void HostAllocator::Free(void* memory, int64_t bytes, Stream) {
  std::vector<Block> dropped;  // back to the system outside the lock
  {
    MutexLock lock(&mu_);
    kept_.push_back({memory, RoundedBytes(bytes)});
    kept_bytes_ += kept_.back().bytes;
    size_t too_many = 0;
    while (kept_.size() - too_many > kMaxKeptBlocks ||
           kept_bytes_ > max_kept_bytes_) {
      kept_bytes_ -= kept_[too_many++].bytes;
    }
    dropped.assign(kept_.begin(), kept_.begin() + too_many);
    kept_.erase(kept_.begin(), kept_.begin() + too_many);
  }
  for (const Block& block : dropped) std::free(block.memory);
}

void CopyStrided(const StridedView& from, const StridedView& to) {
  for (const int64_t size : from.sizes) {
    if (size == 0) return;
  }
  CopyDims(from, to, 0, static_cast<const char*>(from.data),
           static_cast<char*>(to.data));
}

void CopyDense(absl::Span<const DenseCopy> copies) {
  for (const DenseCopy& copy : copies) {
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

void FillElements(void* to, int64_t element_bytes, int64_t elements,
                  uint64_t bits) {
  if (bits == 0) {
    std::memset(to, 0, elements * element_bytes);
    return;
  }
  char* target = static_cast<char*>(to);
  for (int64_t i = 0; i < elements; ++i) {
    std::memcpy(target + i * element_bytes, &bits, element_bytes);
  }
}

}  // namespace kiln
