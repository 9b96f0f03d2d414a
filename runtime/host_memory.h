#ifndef KILN_RUNTIME_HOST_MEMORY_H_
#define KILN_RUNTIME_HOST_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/base/mutex.h"
#include "runtime/device.h"

namespace kiln {

// 64-byte aligned host memory that remembers what was freed: a step's outputs
// come back in the next step, and fresh pages cost more than most kernels
// (facts: 64 MB outputs, page faults and not arithmetic decide).
//
// Keeps at most `max_kept_bytes`; what was freed longest ago goes back to the
// system first.
// Sizes are rounded up to an eighth of their power of two, so a block serves
// requests of nearly its size. Streams are not looked at. Thread-safe.
class HostAllocator final : public Allocator {
 public:
  static constexpr int64_t kAlignment = 64;

  explicit HostAllocator(int64_t max_kept_bytes);
  ~HostAllocator() override;

  absl::StatusOr<void*> Allocate(int64_t bytes, Stream stream) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void Free(void* memory, int64_t bytes, Stream stream) override
      ABSL_LOCKS_EXCLUDED(mu_);

  // What a request of `bytes` takes.
  static int64_t RoundedBytes(int64_t bytes);

 private:
  struct Block {
    void* memory;
    int64_t bytes;
  };

  const int64_t max_kept_bytes_;
  Mutex mu_;
  std::vector<Block> kept_ ABSL_GUARDED_BY(mu_);  // the newest last
  int64_t kept_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

// Copies between strided windows of host memory, on the calling thread.
void CopyStrided(const StridedView& from, const StridedView& to);

// One after the other, on the calling thread.
void CopyDense(absl::Span<const DenseCopy> copies);

// Writes the low `element_bytes` of `bits` into `elements` elements.
void FillElements(void* to, int64_t element_bytes, int64_t elements,
                  uint64_t bits);

}  // namespace kiln

#endif  // KILN_RUNTIME_HOST_MEMORY_H_
