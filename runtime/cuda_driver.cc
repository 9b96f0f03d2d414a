#include "runtime/cuda_driver.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/shared_library.h"

namespace kiln {

#define KILN_CUDA_FIND(name) RETURN_IF_ERROR(library.Find(#name, name))

absl::Status CudaDriver::Find(const SharedLibrary& library) {
  KILN_CUDA_FIND(cuInit);
  KILN_CUDA_FIND(cuGetErrorName);
  KILN_CUDA_FIND(cuDriverGetVersion);
  KILN_CUDA_FIND(cuDeviceGetCount);
  KILN_CUDA_FIND(cuDeviceGet);
  KILN_CUDA_FIND(cuDeviceGetName);
  KILN_CUDA_FIND(cuDeviceGetAttribute);
  KILN_CUDA_FIND(cuDevicePrimaryCtxRetain);
  KILN_CUDA_FIND(cuDevicePrimaryCtxRelease_v2);
  KILN_CUDA_FIND(cuCtxGetCurrent);
  KILN_CUDA_FIND(cuCtxSetCurrent);
  KILN_CUDA_FIND(cuCtxGetId);
  KILN_CUDA_FIND(cuModuleLoadData);
  KILN_CUDA_FIND(cuModuleUnload);
  KILN_CUDA_FIND(cuModuleGetFunction);
  KILN_CUDA_FIND(cuFuncSetAttribute);
  KILN_CUDA_FIND(cuLaunchKernelEx);
  KILN_CUDA_FIND(cuDeviceGetDefaultMemPool);
  KILN_CUDA_FIND(cuMemPoolSetAttribute);
  KILN_CUDA_FIND(cuMemPoolTrimTo);
  KILN_CUDA_FIND(cuMemAllocAsync);
  KILN_CUDA_FIND(cuMemFreeAsync);
  KILN_CUDA_FIND(cuMemFree_v2);
  KILN_CUDA_FIND(cuMemcpyDtoDAsync_v2);
  KILN_CUDA_FIND(cuMemcpyHtoDAsync_v2);
  KILN_CUDA_FIND(cuMemcpyDtoHAsync_v2);
  KILN_CUDA_FIND(cuMemsetD8Async);
  KILN_CUDA_FIND(cuMemsetD16Async);
  KILN_CUDA_FIND(cuMemsetD32Async);
  KILN_CUDA_FIND(cuMemsetD2D32Async);
  KILN_CUDA_FIND(cuStreamSynchronize);
  KILN_CUDA_FIND(cuCtxSynchronize);
  KILN_CUDA_FIND(cuStreamWaitEvent);
  KILN_CUDA_FIND(cuEventCreate);
  KILN_CUDA_FIND(cuEventRecord);
  KILN_CUDA_FIND(cuEventDestroy_v2);
  KILN_CUDA_FIND(cuMemAlloc_v2);
  KILN_CUDA_FIND(cuStreamCreate);
  KILN_CUDA_FIND(cuStreamDestroy_v2);
  return FindCaptures(library);
}

absl::Status CudaDriver::FindCaptures(const SharedLibrary& library) {
  KILN_CUDA_FIND(cuStreamBeginCapture_v2);
  KILN_CUDA_FIND(cuStreamEndCapture);
  KILN_CUDA_FIND(cuStreamIsCapturing);
  KILN_CUDA_FIND(cuThreadExchangeStreamCaptureMode);
  KILN_CUDA_FIND(cuGraphGetNodes);
  KILN_CUDA_FIND(cuGraphInstantiateWithFlags);
  KILN_CUDA_FIND(cuGraphLaunch);
  KILN_CUDA_FIND(cuGraphExecDestroy);
  KILN_CUDA_FIND(cuGraphDestroy);
  return absl::OkStatus();
}

#undef KILN_CUDA_FIND

absl::StatusOr<std::shared_ptr<const CudaDriver>> CudaDriver::Open(
    const std::vector<std::string>& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open({"libcuda.so.1"}, folders));
  std::shared_ptr<CudaDriver> driver(new CudaDriver());
  RETURN_IF_ERROR(driver->Find(library));
  const absl::Status initialized = driver->Check(driver->cuInit(0), "cuInit");
  if (!initialized.ok()) {
    return MakeError(ErrorReason::kNoDevice,
                     absl::StrCat("cuda: ", initialized.message()));
  }
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

absl::Status CudaDriver::Check(CUresult result, absl::string_view call) const {
  if (result == 0) return absl::OkStatus();
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != 0 || name == nullptr) name = "unknown";
  const std::string message = absl::StrCat(call, ": ", name, " (", result, ")");
  if (result == kCudaErrorOutOfMemory) {
    return absl::ResourceExhaustedError(message);
  }
  if (result >= kCudaErrorCaptureUnsupported &&
      result <= kCudaErrorCaptureWrongThread) {
    return absl::FailedPreconditionError(message);
  }
  return absl::InternalError(message);
}

}  // namespace kiln
