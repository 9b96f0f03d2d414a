#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "proto/base/mutex.h"
#include "runtime/cuda_device.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// cuDNN 9, found on the machine. Thread-safe.
class Cudnn {
 public:
  // NO_DEVICE  no libcudnn.so.9
  static absl::StatusOr<std::shared_ptr<Cudnn>> Open(
      std::shared_ptr<CudaDevice> device,
      const std::vector<std::string>& folders);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  struct Functions;
  const Functions& functions() const { return *functions_; }
  CudaDevice& device() const { return *device_; }

  // A handle serves one thread at a time: borrow one, set its stream, give it
  // back.
  absl::StatusOr<void*> BorrowHandle() ABSL_LOCKS_EXCLUDED(mu_);
  void ReturnHandle(void* handle) ABSL_LOCKS_EXCLUDED(mu_);

  // OK, or the library's words: UNSUPPORTED_OP when it says "not supported",
  // else INTERNAL.
  absl::Status Check(int status, absl::string_view call) const;

  // A decision names an engine that this cuDNN does not have for its problem. The first
  // is logged.
  void TellOfLack(absl::string_view engine) const;

 private:
  explicit Cudnn(std::shared_ptr<CudaDevice> device);

  const std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<Functions> functions_;
  mutable std::atomic<bool> told_of_lack_ = false;
  Mutex mu_;
  std::vector<void*> handles_ ABSL_GUARDED_BY(mu_);
};

// A handle for the length of one call.
class CudnnHandle {
 public:
  static absl::StatusOr<CudnnHandle> Borrow(Cudnn& library);
  CudnnHandle(CudnnHandle&& other) noexcept
      : library_(other.library_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  CudnnHandle& operator=(CudnnHandle&&) = delete;
  ~CudnnHandle() {
    if (handle_ != nullptr) library_.ReturnHandle(handle_);
  }
  void* get() const { return handle_; }

 private:
  CudnnHandle(Cudnn& library, void* handle)
      : library_(library), handle_(handle) {}
  Cudnn& library_;
  void* handle_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_H_
