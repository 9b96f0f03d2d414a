#ifndef KILN_TESTS_SUPPORT_WORKER_MEMORY_H_
#define KILN_TESTS_SUPPORT_WORKER_MEMORY_H_

#include <cstdint>

#include "tests/support/sanitized.h"

namespace kiln {

// The address space of workers in tests; 0, no limit, under the sanitizers,
// which claim terabytes of it for their shadow.
inline constexpr int64_t kTestWorkerMemoryBytes =
    kSanitized ? 0 : int64_t{8} << 30;

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_WORKER_MEMORY_H_
