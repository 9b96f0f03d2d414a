#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_BACKEND_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_BACKEND_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_api.h"

// Descriptors of cuDNN's graph interface. Source: cuDNN's backend API
// reference.

namespace kiln {

// Types of attributes (cudnnBackendAttributeType_t).
inline constexpr int kCudnnHandleType = 0;
inline constexpr int kCudnnElementType = 1;
inline constexpr int kCudnnBoolType = 2;
inline constexpr int kCudnnIntType = 3;
inline constexpr int kCudnnFloatType = 4;
inline constexpr int kCudnnDoubleType = 5;
inline constexpr int kCudnnAddressType = 6;
inline constexpr int kCudnnDescriptorType = 15;

// A descriptor of the graph interface. Destroys it.
class CudnnBackend {
 public:
  CudnnBackend() = default;
  CudnnBackend(CudnnBackend&& other) noexcept
      : library_(other.library_),
        descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnBackend& operator=(CudnnBackend&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~CudnnBackend();

  // `kind`: cudnnBackendDescriptorType_t. `library` outlives the descriptor.
  static absl::StatusOr<CudnnBackend> Create(const Cudnn& library, int kind);
  absl::Status SetInts(int attribute, absl::Span<const int64_t> values);
  // One of a type of the interface (cudnnBackendAttributeType_t).
  absl::Status Set(int attribute, int type, const void* value,
                   int64_t count = 1);
  absl::Status SetEnum(int attribute, int type, int value) {
    return Set(attribute, type, &value);
  }
  absl::Status SetDescriptors(int attribute,
                              absl::Span<const CudnnDescriptor> values);
  absl::Status Finalize();

  // The descriptors or numbers of an attribute: as many of `out` are written as
  // there are, and their count is given.
  absl::StatusOr<int64_t> Get(int attribute, int type, int64_t room,
                              void* out) const;

  CudnnDescriptor get() const { return descriptor_; }

 private:
  CudnnBackend(const Cudnn& library, CudnnDescriptor descriptor)
      : library_(&library), descriptor_(descriptor) {}
  const Cudnn* library_ = nullptr;
  CudnnDescriptor descriptor_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_BACKEND_H_
