#include "compiler/keep_freed_memory.h"

#include <malloc.h>

namespace kiln {

void KeepFreedMemory() {
  constexpr int kMiB = 1 << 20;
  mallopt(M_TRIM_THRESHOLD, 64 * kMiB);
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  mallopt(M_TOP_PAD, kMiB);
}

}  // namespace kiln
