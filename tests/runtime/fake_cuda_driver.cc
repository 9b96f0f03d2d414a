// A libcuda.so.1 of host memory, for tests of runtime/cuda_device where there
// is no GPU: the functions that CudaDriver looks for, with their documented
// effects. Streams do their work at once. Three kernels can be launched:
// test_add (from, to, count, term; of the test artifacts), test_blocks (puts the
// count of its blocks at its argument) and the runtime's own strided copy. It
// has four multiprocessors.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/cuda_copy_kernel.h"
#include "runtime/cuda_driver.h"

namespace {

enum Kernel : uintptr_t { kNoKernel, kTestAdd, kTestBlocks, kStridedCopy };

constexpr kiln::CUresult kInvalidValue = 1;
constexpr int kMajor = 9;

void* Host(kiln::CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

void StridedCopy(const kiln::StridedCopyArgument& c) {
  for (int64_t i = 0; i < c.count; ++i) {
    int64_t rest = i, from = 0, to = 0;
    for (int dim = kiln::StridedCopyArgument::kRank - 1; dim >= 0; --dim) {
      from += rest % c.sizes[dim] * c.from_strides[dim];
      to += rest % c.sizes[dim] * c.to_strides[dim];
      rest /= c.sizes[dim];
    }
    std::memcpy(static_cast<char*>(c.to) + to * c.element_bytes,
                static_cast<const char*>(c.from) + from * c.element_bytes,
                c.element_bytes);
  }
}

void TestAdd(void** arguments) {
  const float* const from = *static_cast<const float**>(arguments[0]);
  float* const to = *static_cast<float**>(arguments[1]);
  const long long count = *static_cast<long long*>(arguments[2]);
  const long long term = *static_cast<long long*>(arguments[3]);
  for (long long i = 0; i < count; ++i) to[i] = from[i] + term;
}

template <typename T>
kiln::CUresult Set(kiln::CUdeviceptr at, T value, size_t count) {
  for (size_t i = 0; i < count; ++i) static_cast<T*>(Host(at))[i] = value;
  return 0;
}

thread_local kiln::CUcontext current = nullptr;

}  // namespace

extern "C" {

using namespace kiln;  // NOLINT: the whole file speaks the driver's types

CUresult cuInit(unsigned) { return 0; }
CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = result == kCudaErrorNotFound ? "CUDA_ERROR_NOT_FOUND"
                                       : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return 0;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::strncpy(name, "fake GPU", length);
  return 0;
}
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice) {
  *value = attribute == kCudaComputeCapabilityMajor   ? kMajor
           : attribute == kCudaComputeCapabilityMinor ? 0
                                                      : 4;
  return 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  static char primary;
  *context = reinterpret_cast<CUcontext>(&primary);
  return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return 0; }
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return 0;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return 0;
}

// What needs a context says so on a thread that has none.
#define NEEDS_CONTEXT \
  if (current == nullptr) return 201

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  NEEDS_CONTEXT;
  *module = static_cast<CUmodule>(const_cast<void*>(image));
  return 0;
}
CUresult cuModuleUnload(CUmodule) { return 0; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  NEEDS_CONTEXT;
  const Kernel kernel = std::strcmp(name, "test_add") == 0      ? kTestAdd
                        : std::strcmp(name, "test_blocks") == 0 ? kTestBlocks
                        : std::strcmp(name, kStridedCopyName) == 0
                            ? kStridedCopy
                            : kNoKernel;
  *function = reinterpret_cast<CUfunction>(kernel);
  return kernel == kNoKernel ? kCudaErrorNotFound : 0;
}
CUresult cuFuncSetAttribute(CUfunction, int, int) { return 0; }

// The address of each argument of a launch that packs them.
std::vector<void*> Unpacked(void** extra) {
  std::vector<void*> addresses;
  if (extra[0] != kCudaPackedArguments ||
      extra[2] != kCudaPackedArgumentsBytes ||
      extra[4] != kCudaPackedArgumentsEnd) {
    return addresses;
  }
  const size_t bytes = *static_cast<const size_t*>(extra[3]);
  for (size_t at = 0; at < bytes; at += 8) {
    addresses.push_back(static_cast<char*>(extra[1]) + at);
  }
  return addresses;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                          void** arguments, void** extra) {
  NEEDS_CONTEXT;
  std::vector<void*> unpacked;
  if (arguments == nullptr) {
    unpacked = Unpacked(extra);
    if (unpacked.empty()) return kInvalidValue;
    arguments = unpacked.data();
  }
  const uint64_t blocks =
      uint64_t{config->gridDimX} * config->gridDimY * config->gridDimZ;
  const uint64_t threads =
      uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
  if (blocks == 0 || threads == 0 || threads > 1024) return kInvalidValue;
  if (reinterpret_cast<uintptr_t>(function) == kTestAdd) {
    TestAdd(arguments);
  } else if (reinterpret_cast<uintptr_t>(function) == kTestBlocks) {
    **static_cast<float**>(arguments[0]) = static_cast<float>(blocks);
  } else {
    StridedCopy(*static_cast<const StridedCopyArgument*>(arguments[0]));
  }
  return 0;
}
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  *pool = nullptr;
  return 0;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, int, void*) { return 0; }
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream) {
  NEEDS_CONTEXT;
  if (bytes == 0) return kInvalidValue;
  *address = reinterpret_cast<CUdeviceptr>(
      std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return *address == 0 ? kCudaErrorOutOfMemory : 0;
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
  NEEDS_CONTEXT;
  std::free(Host(address));
  return 0;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  std::free(Host(address));
  return 0;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream) {
  NEEDS_CONTEXT;
  std::memcpy(Host(to), Host(from), bytes);
  return 0;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                              CUstream) {
  NEEDS_CONTEXT;
  std::memcpy(Host(to), from, bytes);
  return 0;
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes,
                              CUstream) {
  NEEDS_CONTEXT;
  std::memcpy(to, Host(from), bytes);
  return 0;
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count,
                         CUstream) {
  return Set(at, value, count);
}
CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t count,
                          CUstream) {
  return Set(at, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count,
                          CUstream) {
  return Set(at, value, count);
}
CUresult cuMemsetD2D32Async(CUdeviceptr at, size_t pitch, unsigned value,
                            size_t width, size_t height, CUstream) {
  for (size_t row = 0; row < height; ++row) Set(at + row * pitch, value, width);
  return 0;
}
CUresult cuStreamSynchronize(CUstream) {
  NEEDS_CONTEXT;
  return 0;
}
CUresult cuCtxSynchronize() { return 0; }
CUresult cuStreamWaitEvent(CUstream, CUevent event, unsigned) {
  return event == nullptr ? kInvalidValue : 0;
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  NEEDS_CONTEXT;
  *event = static_cast<CUevent>(std::malloc(1));
  return 0;
}
CUresult cuEventRecord(CUevent event, CUstream) {
  return event == nullptr ? kInvalidValue : 0;
}
CUresult cuEventDestroy_v2(CUevent event) {
  std::free(event);
  return 0;
}

}  // extern "C"
