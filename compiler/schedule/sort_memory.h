#ifndef KILN_COMPILER_SCHEDULE_SORT_MEMORY_H_
#define KILN_COMPILER_SCHEDULE_SORT_MEMORY_H_

// The shared memory of CudaSorts and CudaSelections kernels.

#include <cstdint>

#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Words for the counts of a block's warps, 256 digits each.
inline int64_t CountWordsOf(const CudaSorts& v) {
  return int64_t{v.threads} / 32 * 256;
}
// Whether a word has no room for a place of 16 bits beside its key.
inline bool PlacesApart(int64_t key_bytes) { return key_bytes > 2; }
// The bytes of a block: the counts, then a word for each element, and its place if that
// is apart.
inline int64_t SharedBytesOf(const CudaSorts& v, int64_t key_bytes) {
  return CountWordsOf(v) * 4 +
         int64_t{v.threads} * v.items * (PlacesApart(key_bytes) ? 6 : 4);
}

inline int64_t SharedBytesOf(const CudaSelections& v) {
  return int64_t{v.capacity} * 8;
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SORT_MEMORY_H_
