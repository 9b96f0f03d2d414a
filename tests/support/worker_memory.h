#ifndef KILN_TESTS_SUPPORT_WORKER_MEMORY_H_
#define KILN_TESTS_SUPPORT_WORKER_MEMORY_H_

#include <cstdint>

namespace kiln {

// The address space of workers in tests; 0, no limit, under the sanitizers,
// which claim terabytes of it for their shadow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int64_t kTestWorkerMemoryBytes = 0;
#else
inline constexpr int64_t kTestWorkerMemoryBytes = int64_t{8} << 30;
#endif

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_WORKER_MEMORY_H_
