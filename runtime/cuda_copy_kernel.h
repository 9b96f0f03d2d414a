#ifndef KILN_RUNTIME_CUDA_COPY_KERNEL_H_
#define KILN_RUNTIME_CUDA_COPY_KERNEL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/device.h"

namespace kiln {

// A kernel that the runtime itself brings to a GPU: a copy between two strided
// windows, for the rare CopyStep that is not dense (the compiler writes its own
// kernels for all that matters). PTX, so that it runs on every GPU from
// sm_70 on; the driver compiles it when it is first needed.
extern const char kStridedCopyPtx[];
inline constexpr char kStridedCopyName[] = "kiln_strided_copy";
inline constexpr unsigned kStridedCopyThreads = 256;

// Its argument, by value: dimensions are numbered from the outermost, those not
// in use have size 1.
struct StridedCopyArgument {
  static constexpr int kRank = 6;
  const void* from = nullptr;
  void* to = nullptr;
  int64_t count = 1;  // elements
  int64_t element_bytes = 1;
  int64_t sizes[kRank] = {1, 1, 1, 1, 1, 1};
  int64_t from_strides[kRank] = {};
  int64_t to_strides[kRank] = {};

  // Dimensions that lie as one in both tensors become one. Sizes are not zero.
  //
  // UNSUPPORTED_OP  more than six dimensions remain
  static absl::StatusOr<StridedCopyArgument> Of(const StridedView& from,
                                                const StridedView& to);

  // One run of bytes on both sides.
  bool dense() const;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_CUDA_COPY_KERNEL_H_
