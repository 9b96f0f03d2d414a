#ifndef KILN_RUNTIME_CUDA_DRIVER_H_
#define KILN_RUNTIME_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/shared_library.h"

// The part of the CUDA driver's API that the runtime calls, with its functions
// found in libcuda.so.1 while the program runs: nothing links CUDA, nothing
// includes its headers. Names, types and values are the documented ABI (CUDA
// Driver API reference; the suffix _v2 is that of the 64-bit functions).

namespace kiln {

using CUresult = int;  // 0: success
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;

inline constexpr CUresult kCudaErrorInvalidValue = 1;
inline constexpr CUresult kCudaErrorOutOfMemory = 2;
inline constexpr CUresult kCudaErrorInvalidImage = 200;
inline constexpr CUresult kCudaErrorNoBinaryForGpu = 209;
inline constexpr CUresult kCudaErrorInvalidPtx = 218;
inline constexpr CUresult kCudaErrorInvalidSource = 300;
inline constexpr CUresult kCudaErrorNotFound = 500;
inline constexpr CUresult kCudaErrorLaunchOutOfResources = 701;
// From here to the last: what a capture forbids, or that it is broken.
inline constexpr CUresult kCudaErrorCaptureUnsupported = 900;
inline constexpr CUresult kCudaErrorCaptureInvalidated = 901;
inline constexpr CUresult kCudaErrorCaptureWrongThread = 908;

inline constexpr int kCudaMultiprocessorCount = 16;
inline constexpr int kCudaComputeCapabilityMajor = 75;
inline constexpr int kCudaComputeCapabilityMinor = 76;
inline constexpr int kCudaMaxDynamicSharedBytes = 8;  // of a function
inline constexpr int kCudaPoolReleaseThreshold = 4;
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr unsigned kCudaStreamNonBlocking = 1;
// How a capture treats calls that it cannot keep: those of the capturing thread
// are errors, or none are.
inline constexpr int kCudaCaptureThreadLocal = 1;
inline constexpr int kCudaCaptureRelaxed = 2;
inline constexpr int kCudaCaptureNone = 0;  // a stream's status
inline constexpr unsigned kCudaAttributeClusterDimension = 4;
inline constexpr unsigned kCudaAttributeProgrammaticStreamSerialization = 6;
// Keys among the `extra` of a launch: the parameters as one block of memory.
inline void* const kCudaPackedArgumentsEnd = nullptr;
inline void* const kCudaPackedArguments = reinterpret_cast<void*>(1);
inline void* const kCudaPackedArgumentsBytes = reinterpret_cast<void*>(2);

union CUlaunchAttributeValue {
  char bytes[64];
  struct {
    unsigned x, y, z;
  } clusterDim;
  int programmaticStreamSerializationAllowed;
};

struct CUlaunchAttribute {
  unsigned id;
  char pad[4];
  CUlaunchAttributeValue value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

// The driver's functions. Thread-safe; never closed.
class CudaDriver {
 public:
  // Finds libcuda.so.1 and initializes it.
  //
  // NO_DEVICE  no driver, one that lacks a function, or no GPU: in its words
  static absl::StatusOr<std::shared_ptr<const CudaDriver>> Open(
      const std::vector<std::string>& folders);

  // OK, or the driver's name for `result` with `call` in front:
  // RESOURCE_EXHAUSTED when memory is out, FAILED_PRECONDITION when a capture is
  // why, else INTERNAL.
  absl::Status Check(CUresult result, absl::string_view call) const;

  CUresult (*cuInit)(unsigned);
  CUresult (*cuGetErrorName)(CUresult, const char**);
  CUresult (*cuDriverGetVersion)(int*);
  CUresult (*cuDeviceGetCount)(int*);
  CUresult (*cuDeviceGet)(CUdevice*, int);
  CUresult (*cuDeviceGetName)(char*, int, CUdevice);
  CUresult (*cuDeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*cuDevicePrimaryCtxRelease_v2)(CUdevice);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxSetCurrent)(CUcontext);
  CUresult (*cuCtxGetId)(CUcontext, unsigned long long*);
  CUresult (*cuModuleLoadData)(CUmodule*, const void*);
  CUresult (*cuModuleUnload)(CUmodule);
  CUresult (*cuModuleGetFunction)(CUfunction*, CUmodule, const char*);
  CUresult (*cuFuncSetAttribute)(CUfunction, int, int);
  CUresult (*cuLaunchKernelEx)(const CUlaunchConfig*, CUfunction, void**,
                               void**);
  CUresult (*cuDeviceGetDefaultMemPool)(CUmemoryPool*, CUdevice);
  CUresult (*cuMemPoolSetAttribute)(CUmemoryPool, int, void*);
  CUresult (*cuMemPoolTrimTo)(CUmemoryPool, size_t);
  CUresult (*cuMemAllocAsync)(CUdeviceptr*, size_t, CUstream);
  CUresult (*cuMemFreeAsync)(CUdeviceptr, CUstream);
  CUresult (*cuMemFree_v2)(CUdeviceptr);
  CUresult (*cuMemcpyDtoDAsync_v2)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  CUresult (*cuMemcpyHtoDAsync_v2)(CUdeviceptr, const void*, size_t, CUstream);
  CUresult (*cuMemcpyDtoHAsync_v2)(void*, CUdeviceptr, size_t, CUstream);
  CUresult (*cuMemsetD8Async)(CUdeviceptr, unsigned char, size_t, CUstream);
  CUresult (*cuMemsetD16Async)(CUdeviceptr, unsigned short, size_t, CUstream);
  CUresult (*cuMemsetD32Async)(CUdeviceptr, unsigned, size_t, CUstream);
  CUresult (*cuMemsetD2D32Async)(CUdeviceptr, size_t, unsigned, size_t, size_t,
                                 CUstream);
  CUresult (*cuStreamSynchronize)(CUstream);
  CUresult (*cuCtxSynchronize)();
  CUresult (*cuStreamWaitEvent)(CUstream, CUevent, unsigned);
  CUresult (*cuEventCreate)(CUevent*, unsigned);
  CUresult (*cuEventRecord)(CUevent, CUstream);
  CUresult (*cuEventDestroy_v2)(CUevent);
  CUresult (*cuMemAlloc_v2)(CUdeviceptr*, size_t);
  CUresult (*cuStreamCreate)(CUstream*, unsigned);
  CUresult (*cuStreamDestroy_v2)(CUstream);
  CUresult (*cuStreamBeginCapture_v2)(CUstream, int);
  CUresult (*cuStreamEndCapture)(CUstream, CUgraph*);
  CUresult (*cuStreamIsCapturing)(CUstream, int*);
  CUresult (*cuThreadExchangeStreamCaptureMode)(int*);
  CUresult (*cuGraphGetNodes)(CUgraph, CUgraphNode*, size_t*);
  CUresult (*cuGraphInstantiateWithFlags)(CUgraphExec*, CUgraph,
                                          unsigned long long);
  CUresult (*cuGraphLaunch)(CUgraphExec, CUstream);
  CUresult (*cuGraphExecDestroy)(CUgraphExec);
  CUresult (*cuGraphDestroy)(CUgraph);

 private:
  CudaDriver() = default;

  absl::Status Find(const SharedLibrary& library);
  absl::Status FindCaptures(const SharedLibrary& library);
};

// Calls a function of the driver and returns a non-OK status from the caller.
#define KILN_CUDA_RETURN_IF_ERROR(driver, name, ...) \
  RETURN_IF_ERROR((driver).Check((driver).name(__VA_ARGS__), #name))

}  // namespace kiln

#endif  // KILN_RUNTIME_CUDA_DRIVER_H_
