// A libcuda.so.1 of host memory, for tests of runtime/cuda_device where there
// is no GPU: the functions that CudaDriver looks for, with their documented
// effects. Streams do their work at once, or keep it while they are captured. Four kernels can be launched:
// test_add (from, to, count, term; of the test artifacts), test_blocks (puts the
// count of its blocks at its argument), test_arguments (any number) and the
// runtime's own copies. There are two devices; each has four
// multiprocessors and 227 KB of shared memory for a block, of which it gives 48
// unasked. Functions that no driver has, fake..., tell what was asked of it and reset
// the devices.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cuda_copy_kernel.h"
#include "runtime/cuda_dense_copies.h"
#include "runtime/cuda_driver.h"
#include "runtime/host_captures.h"
#include "tests/runtime/fake_cuda_kernels.h"

namespace {

using kiln::DenseCopies;
using kiln::Host;
using kiln::StridedCopy;
using kiln::TestAdd;
using kiln::TestArguments;

enum Kernel : uintptr_t {
  kNoKernel,
  kTestAdd,
  kTestBlocks,
  kTestArguments,
  kStridedCopy,
  kFewCopies,
  kManyCopies,
  kKernels
};

constexpr kiln::CUresult kInvalidValue = kiln::kCudaErrorInvalidValue;
// Of a block, once it was asked for (compute capability 9.0), and before.
constexpr int kMostShared = 227 << 10;
unsigned most_dynamic[kKernels] = {48 << 10, 48 << 10, 48 << 10, 48 << 10,
                                   48 << 10, 48 << 10, 48 << 10};
constexpr int kMajor = 9;

kiln::HostCaptures captures;
std::atomic<int> loaded_modules = 0;

// Does `work` now, or when the graph runs that `stream` is captured for.
template <typename Work>
kiln::CUresult Do(kiln::CUstream stream, const Work& work) {
  return captures.Do(stream,
                     [work] {
                       work();
                       return absl::OkStatus();
                     })
                 .ok()
             ? 0
             : kInvalidValue;
}

template <typename T>
kiln::CUresult Set(kiln::CUdeviceptr at, T value, size_t count,
                   kiln::CUstream stream) {
  return Do(stream, [=] {
    for (size_t i = 0; i < count; ++i) static_cast<T*>(Host(at))[i] = value;
  });
}

kiln::CUresult Copy(kiln::CUdeviceptr to, kiln::CUdeviceptr from, size_t bytes,
                    kiln::CUstream stream) {
  return Do(stream, [=] { std::memcpy(Host(to), Host(from), bytes); });
}

struct Memory {
  std::mutex mu;
  int64_t room = int64_t{1} << 40;
  int64_t kept = 0;  // by the pool, free
  std::map<kiln::CUdeviceptr, int64_t> sizes;
};
Memory memory;

kiln::CUresult Take(kiln::CUdeviceptr* address, int64_t bytes) {
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard<std::mutex> lock(memory.mu);
  if (bytes > memory.room) return kiln::kCudaErrorOutOfMemory;
  *address = reinterpret_cast<kiln::CUdeviceptr>(
      std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  memory.room -= bytes;
  memory.sizes[*address] = bytes;
  return 0;
}

// Its bytes, which go nowhere yet. Under the lock.
int64_t Give(kiln::CUdeviceptr address) {
  const auto at = memory.sizes.find(address);
  if (at == memory.sizes.end()) std::abort();
  const int64_t bytes = at->second;
  memory.sizes.erase(at);
  std::free(Host(address));
  return bytes;
}

constexpr int kDevices = 2;
thread_local kiln::CUcontext current = nullptr;
// Of the last call that needs one.
thread_local kiln::CUcontext last_used = nullptr;
thread_local int changes = 0;
thread_local int launches = 0;
thread_local int copies = 0;  // of the driver's own, on the device
bool takes_ptx = true;
unsigned long long context_id = 1;
// Of the last launch; 0: none.
unsigned last_cluster = 0;
int last_is_programmatic = 0;

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
  *count = kDevices;
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
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  static char primaries[kDevices];
  *context = reinterpret_cast<CUcontext>(&primaries[device]);
  return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return 0; }
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return 0;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  ++changes;
  return 0;
}
CUresult cuCtxGetId(CUcontext, unsigned long long* id) {
  *id = context_id;
  return 0;
}
// As cudaDeviceReset does: what was made is gone, and contexts begin anew.
void fakeResetDevices() {
  ++context_id;
  last_used = nullptr;
}
CUcontext fakeLastUsedContext() { return last_used; }
int fakeContextChanges() { return changes; }
// The device has so much more, and no less, than what is out.
void fakeSetRoom(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(memory.mu);
  memory.room = bytes;
  memory.kept = 0;
}
int fakeLaunches() { return launches; }
int fakeCopies() { return copies; }
int fakeLoadedModules() { return loaded_modules; }
// Whether a text may be loaded: else there is no compiler for it.
void fakeTakePtx(int takes) { takes_ptx = takes != 0; }
unsigned fakeLastCluster() { return last_cluster; }
int fakeLastIsProgrammatic() { return last_is_programmatic; }

// What needs a context says so on a thread that has none.
#define NEEDS_CONTEXT                 \
  if (current == nullptr) return 201; \
  last_used = current

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  NEEDS_CONTEXT;
  if (!takes_ptx && *static_cast<const char*>(image) == '.') {
    return 221;  // CUDA_ERROR_JIT_COMPILER_NOT_FOUND
  }
  *module = static_cast<CUmodule>(const_cast<void*>(image));
  ++loaded_modules;
  return 0;
}
CUresult cuModuleUnload(CUmodule) {
  NEEDS_CONTEXT;
  --loaded_modules;
  return 0;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  NEEDS_CONTEXT;
  const Kernel kernel =
      std::strcmp(name, "test_add") == 0             ? kTestAdd
      : std::strcmp(name, "test_blocks") == 0        ? kTestBlocks
      : std::strcmp(name, "test_arguments") == 0     ? kTestArguments
      : std::strcmp(name, kStridedCopyName) == 0     ? kStridedCopy
      : std::strcmp(name, kFewDenseCopiesName) == 0  ? kFewCopies
      : std::strcmp(name, kManyDenseCopiesName) == 0 ? kManyCopies
                                                     : kNoKernel;
  *function = reinterpret_cast<CUfunction>(kernel);
  return kernel == kNoKernel ? kCudaErrorNotFound : 0;
}
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  NEEDS_CONTEXT;
  if (attribute != kCudaMaxDynamicSharedBytes || value > kMostShared) {
    return kInvalidValue;
  }
  most_dynamic[reinterpret_cast<uintptr_t>(function)] = value;
  return 0;
}

// The arguments of a launch that packs them, 8 bytes each; nothing of another.
std::optional<std::vector<uint64_t>> Unpacked(void** extra) {
  if (extra[0] != kCudaPackedArguments ||
      extra[2] != kCudaPackedArgumentsBytes ||
      extra[4] != kCudaPackedArgumentsEnd) {
    return std::nullopt;
  }
  std::vector<uint64_t> arguments(*static_cast<const size_t*>(extra[3]) / 8);
  if (!arguments.empty())
    std::memcpy(arguments.data(), extra[1], arguments.size() * 8);
  return arguments;
}

// Whether the blocks of the grid are whole clusters.
bool TakeAttributes(const CUlaunchConfig& config) {
  last_cluster = 0;
  last_is_programmatic = 0;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == kCudaAttributeClusterDimension) {
      last_cluster = attribute.value.clusterDim.x;
    } else if (attribute.id == kCudaAttributeProgrammaticStreamSerialization) {
      last_is_programmatic =
          attribute.value.programmaticStreamSerializationAllowed;
    }
  }
  return last_cluster == 0 || config.gridDimX % last_cluster == 0;
}

// Of the runtime's own kernels.
CUresult LaunchOwn(uintptr_t kernel, const void* argument, int64_t blocks,
                   CUstream stream) {
  switch (kernel) {
    case kStridedCopy: {
      const auto copy = *static_cast<const StridedCopyArgument*>(argument);
      return Do(stream, [copy] { StridedCopy(copy); });
    }
    case kFewCopies: {
      const auto copies = *static_cast<const FewDenseCopies*>(argument);
      return Do(stream, [=] { DenseCopies(copies, blocks); });
    }
    case kManyCopies: {
      const auto copies = *static_cast<const ManyDenseCopies*>(argument);
      return Do(stream, [=] { DenseCopies(copies, blocks); });
    }
    default:
      return kInvalidValue;
  }
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                          void** arguments, void** extra) {
  NEEDS_CONTEXT;
  ++launches;
  if (!TakeAttributes(*config)) return kInvalidValue;
  const uint64_t blocks =
      uint64_t{config->gridDimX} * config->gridDimY * config->gridDimZ;
  const uint64_t threads =
      uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
  if (blocks == 0 || threads == 0 || threads > 1024) return kInvalidValue;
  // As of a kernel with many registers.
  if (reinterpret_cast<uintptr_t>(function) == kTestArguments &&
      threads > 512) {
    return kCudaErrorLaunchOutOfResources;
  }
  if (config->sharedMemBytes >
      most_dynamic[reinterpret_cast<uintptr_t>(function)]) {
    return kInvalidValue;
  }
  if (arguments != nullptr) {
    return LaunchOwn(reinterpret_cast<uintptr_t>(function), arguments[0],
                     static_cast<int64_t>(blocks), config->hStream);
  }
  const std::optional<std::vector<uint64_t>> unpacked = Unpacked(extra);
  if (!unpacked.has_value()) return kInvalidValue;
  const auto kernel = reinterpret_cast<uintptr_t>(function);
  return Do(config->hStream, [=] {
    if (kernel == kTestAdd) return TestAdd(*unpacked);
    if (kernel == kTestArguments) return TestArguments(*unpacked);
    *static_cast<float*>(Host(unpacked->at(0))) = static_cast<float>(blocks);
  });
}
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  *pool = nullptr;
  return 0;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, int, void*) { return 0; }
// The pool serves no request of another size from what it keeps.
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t bytes) {
  NEEDS_CONTEXT;
  const std::lock_guard<std::mutex> lock(memory.mu);
  memory.room += std::max<int64_t>(memory.kept - bytes, 0);
  memory.kept = std::min<int64_t>(memory.kept, bytes);
  return 0;
}
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream) {
  NEEDS_CONTEXT;
  return Take(address, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
  NEEDS_CONTEXT;
  const std::lock_guard<std::mutex> lock(memory.mu);
  memory.kept += Give(address);
  return 0;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  NEEDS_CONTEXT;
  const std::lock_guard<std::mutex> lock(memory.mu);
  memory.room += Give(address);
  return 0;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  NEEDS_CONTEXT;
  ++copies;
  return Copy(to, from, bytes, stream);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                              CUstream stream) {
  NEEDS_CONTEXT;
  return Copy(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  NEEDS_CONTEXT;
  return Copy(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count,
                         CUstream stream) {
  NEEDS_CONTEXT;
  return Set(at, value, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t count,
                          CUstream stream) {
  NEEDS_CONTEXT;
  return Set(at, value, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count,
                          CUstream stream) {
  NEEDS_CONTEXT;
  return Set(at, value, count, stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr at, size_t pitch, unsigned value,
                            size_t width, size_t height, CUstream stream) {
  NEEDS_CONTEXT;
  for (size_t row = 0; row < height; ++row) {
    Set(at + row * pitch, value, width, stream);
  }
  return 0;
}
CUresult cuStreamSynchronize(CUstream stream) {
  NEEDS_CONTEXT;
  return captures.AllowWait(stream, "cuStreamSynchronize").ok()
             ? 0
             : kCudaErrorCaptureUnsupported;
}
CUresult cuCtxSynchronize() {
  NEEDS_CONTEXT;
  return 0;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  NEEDS_CONTEXT;
  if (event == nullptr) return kInvalidValue;
  captures.Wait(*reinterpret_cast<HostCaptures::Point*>(event), stream);
  return 0;
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  NEEDS_CONTEXT;
  *event = reinterpret_cast<CUevent>(new HostCaptures::Point());
  return 0;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  NEEDS_CONTEXT;
  if (event == nullptr) return kInvalidValue;
  *reinterpret_cast<HostCaptures::Point*>(event) = captures.PointOf(stream);
  return 0;
}
CUresult cuEventDestroy_v2(CUevent event) {
  NEEDS_CONTEXT;
  delete reinterpret_cast<HostCaptures::Point*>(event);
  return 0;
}
CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  NEEDS_CONTEXT;
  return Take(address, bytes);
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  NEEDS_CONTEXT;
  *stream = reinterpret_cast<CUstream>(new char);
  return 0;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  NEEDS_CONTEXT;
  delete reinterpret_cast<char*>(stream);
  return 0;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, int) {
  NEEDS_CONTEXT;
  return captures.Begin(stream).ok() ? 0 : kInvalidValue;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  NEEDS_CONTEXT;
  absl::StatusOr<std::unique_ptr<CapturedGraph>> captured =
      captures.End(stream);
  if (!captured.ok()) return kCudaErrorCaptureInvalidated;
  *graph = reinterpret_cast<CUgraph>(captured->release());
  return 0;
}
CUresult cuStreamIsCapturing(CUstream stream, int* status) {
  NEEDS_CONTEXT;
  *status = captures.Has(stream) ? 1 : kCudaCaptureNone;
  return 0;
}
CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int of_this_thread = 0;
  std::swap(of_this_thread, *mode);
  return 0;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode*, size_t* count) {
  *count = reinterpret_cast<CapturedGraph*>(graph)->size();
  return 0;
}
// The graph itself runs: destroying what it was made of does nothing.
CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph,
                                     unsigned long long) {
  *made = reinterpret_cast<CUgraphExec>(graph);
  return 0;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  NEEDS_CONTEXT;
  return reinterpret_cast<CapturedGraph*>(graph)->Launch(stream).ok()
             ? 0
             : kInvalidValue;
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  NEEDS_CONTEXT;
  delete reinterpret_cast<CapturedGraph*>(graph);
  return 0;
}
CUresult cuGraphDestroy(CUgraph) { return 0; }

}  // extern "C"
