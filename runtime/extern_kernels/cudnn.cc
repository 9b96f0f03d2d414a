#include "runtime/extern_kernels/cudnn.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/cudnn_api.h"
#include "runtime/shared_library.h"

namespace kiln {

Cudnn::Cudnn(std::shared_ptr<CudaDevice> device)
    : device_(std::move(device)), functions_(std::make_unique<Functions>()) {}

Cudnn::~Cudnn() {
  const absl::StatusOr<CurrentDevice> current = device_->MakeCurrent();
  if (!current.ok()) return;
  MutexLock lock(&mu_);
  for (void* handle : handles_) functions_->cudnnDestroy(handle);
}

absl::StatusOr<std::shared_ptr<Cudnn>> Cudnn::Open(
    std::shared_ptr<CudaDevice> device,
    const std::vector<std::string>& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open({"libcudnn.so.9"}, folders));
  std::shared_ptr<Cudnn> opened(new Cudnn(std::move(device)));
  Functions& f = *opened->functions_;
#define KILN_CUDNN_FIND(name) RETURN_IF_ERROR(library.Find(#name, f.name))
  KILN_CUDNN_FIND(cudnnCreate);
  KILN_CUDNN_FIND(cudnnDestroy);
  KILN_CUDNN_FIND(cudnnSetStream);
  KILN_CUDNN_FIND(cudnnGetVersion);
  KILN_CUDNN_FIND(cudnnGetErrorString);
  KILN_CUDNN_FIND(cudnnGetLastErrorString);
  KILN_CUDNN_FIND(cudnnBackendCreateDescriptor);
  KILN_CUDNN_FIND(cudnnBackendDestroyDescriptor);
  KILN_CUDNN_FIND(cudnnBackendSetAttribute);
  KILN_CUDNN_FIND(cudnnBackendGetAttribute);
  KILN_CUDNN_FIND(cudnnBackendFinalize);
  KILN_CUDNN_FIND(cudnnBackendExecute);
  KILN_CUDNN_FIND(cudnnCreateTensorDescriptor);
  KILN_CUDNN_FIND(cudnnDestroyTensorDescriptor);
  KILN_CUDNN_FIND(cudnnSetTensorNdDescriptor);
  KILN_CUDNN_FIND(cudnnAddTensor);
  KILN_CUDNN_FIND(cudnnCreateActivationDescriptor);
  KILN_CUDNN_FIND(cudnnDestroyActivationDescriptor);
  KILN_CUDNN_FIND(cudnnSetActivationDescriptor);
  KILN_CUDNN_FIND(cudnnActivationForward);
#undef KILN_CUDNN_FIND
  return opened;
}

absl::StatusOr<void*> Cudnn::BorrowHandle() {
  {
    MutexLock lock(&mu_);
    if (!handles_.empty()) {
      void* const handle = handles_.back();
      handles_.pop_back();
      return handle;
    }
  }
  ASSIGN_OR_RETURN(const CurrentDevice current, device_->MakeCurrent());
  void* handle = nullptr;
  RETURN_IF_ERROR(Check(functions_->cudnnCreate(&handle), "cudnnCreate"));
  return handle;
}

absl::StatusOr<CudnnHandle> CudnnHandle::Borrow(Cudnn& library) {
  ASSIGN_OR_RETURN(void* const handle, library.BorrowHandle());
  return CudnnHandle(library, handle);
}

void Cudnn::ReturnHandle(void* handle) {
  MutexLock lock(&mu_);
  handles_.push_back(handle);
}

absl::Status Cudnn::Check(int status, absl::string_view call) const {
  if (status == 0) return absl::OkStatus();
  const std::string message = absl::StrCat(
      call, ": ", functions_->cudnnGetErrorString(status), " (", status, ")");
  if (status >= kCudnnNotSupportedFirst && status <= kCudnnNotSupportedLast) {
    return MakeError(ErrorReason::kUnsupportedOp, message);
  }
  return absl::InternalError(message);
}

void Cudnn::TellOfLack(absl::string_view engine) const {
  if (told_of_lack_.exchange(true)) return;
  LogWarning("cudnn.engine_missed",
             {{"engine", engine},
              {"cudnn", uint64_t{functions_->cudnnGetVersion()}},
              {"taken", "its own first choice"}});
}

}  // namespace kiln
