#include "runtime/cuda_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/container/fixed_array.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/captures_under_way.h"

namespace kiln {
namespace {

CUstream StreamOf(Stream stream) { return static_cast<CUstream>(stream); }
CUdeviceptr Address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

// Source: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability", maximum dimensions of a grid.
constexpr std::array<int64_t, 3> kMostBlocks = {(int64_t{1} << 31) - 1, 65535,
                                                65535};

// What a launch asks for beyond its grid.
class LaunchAttributes {
 public:
  explicit LaunchAttributes(const KernelLaunch& launch) {
    if (launch.cluster > 0) {
      Add(kCudaAttributeClusterDimension).clusterDim = {launch.cluster, 1, 1};
    }
    if (launch.programmatic_dependent_launch) {
      Add(kCudaAttributeProgrammaticStreamSerialization)
          .programmaticStreamSerializationAllowed = 1;
    }
  }
  CUlaunchAttribute* data() { return list_; }
  unsigned count() const { return count_; }

 private:
  CUlaunchAttributeValue& Add(unsigned id) {
    list_[count_].id = id;
    return list_[count_++].value;
  }

  CUlaunchAttribute list_[2] = {};
  unsigned count_ = 0;
};

// A cubin is an ELF file. The driver takes other bytes for the text of PTX and
// reads them to their NUL, so they never get there.
bool LooksLikeCubin(absl::string_view image) {
  constexpr size_t kHeaderBytes = 64;
  if (image.size() < kHeaderBytes || image.substr(0, 4) !=
                                         "\x7f"
                                         "ELF") {
    return false;
  }
  uint64_t sections_at = 0;  // e_shoff
  uint16_t section_bytes = 0;
  uint16_t sections = 0;
  std::memcpy(&sections_at, image.data() + 40, sizeof(sections_at));
  std::memcpy(&section_bytes, image.data() + 58, sizeof(section_bytes));
  std::memcpy(&sections, image.data() + 60, sizeof(sections));
  return sections_at <= image.size() &&
         uint64_t{section_bytes} * sections <= image.size() - sections_at;
}

class CudaModule final : public Module {
 public:
  CudaModule(const CudaDevice& device, CUmodule module)
      : device_(device), module_(module) {}
  ~CudaModule() override { device_.Retire(module_); }

  absl::StatusOr<KernelHandle> FindKernel(
      const std::string& symbol, uint32_t shared_bytes) const override {
    ASSIGN_OR_RETURN(const CurrentDevice current, device_.MakeCurrent());
    CUfunction function = nullptr;
    const CUresult result = device_.driver().cuModuleGetFunction(
        &function, module_, symbol.c_str());
    if (result == kCudaErrorNotFound) {
      return MakeError(
          ErrorReason::kArtifactCorrupt,
          absl::StrCat("kernel ", symbol, ": its module does not export it"));
    }
    RETURN_IF_ERROR(device_.driver().Check(result, "cuModuleGetFunction"));
    RETURN_IF_ERROR(AskForShared(function, symbol, shared_bytes));
    return static_cast<KernelHandle>(function);
  }

 private:
  // Without asking a kernel may have 48 KB, of which its static shared memory is
  // a part (CUDA C++ Programming Guide, "Shared Memory"). Asked once for all of its
  // launches.
  absl::Status AskForShared(CUfunction function, const std::string& symbol,
                            uint32_t shared_bytes) const {
    if (shared_bytes == 0) return absl::OkStatus();
    const CUresult result = shared_bytes <= std::numeric_limits<int>::max()
                                ? device_.driver().cuFuncSetAttribute(
                                      function, kCudaMaxDynamicSharedBytes,
                                      static_cast<int>(shared_bytes))
                                : kCudaErrorInvalidValue;
    if (result != kCudaErrorInvalidValue) {
      return device_.driver().Check(result, "cuFuncSetAttribute");
    }
    return MakeError(ErrorReason::kArtifactIncompatible,
                     absl::StrCat("out of resource: ", symbol,
                                  ": a block needs ", shared_bytes,
                                  " bytes of dynamic shared memory, more than ",
                                  device_.traits().name, " has"));
  }

  const CudaDevice& device_;  // outlives its modules
  const CUmodule module_;
};

class CudaMarker final : public Marker {
 public:
  CudaMarker(const CudaDevice& device, CUevent event)
      : device_(device), event_(event) {}
  ~CudaMarker() override {
    const absl::StatusOr<CurrentDevice> current = device_.MakeCurrent();
    if (current.ok()) device_.driver().cuEventDestroy_v2(event_);
  }

  absl::Status Record(Stream stream) override {
    ASSIGN_OR_RETURN(const CurrentDevice current, device_.MakeCurrent());
    KILN_CUDA_RETURN_IF_ERROR(device_.driver(), cuEventRecord, event_,
                              StreamOf(stream));
    return absl::OkStatus();
  }
  absl::Status Wait(Stream stream) override {
    ASSIGN_OR_RETURN(const CurrentDevice current, device_.MakeCurrent());
    KILN_CUDA_RETURN_IF_ERROR(device_.driver(), cuStreamWaitEvent,
                              StreamOf(stream), event_, 0);
    return absl::OkStatus();
  }

 private:
  const CudaDevice& device_;
  const CUevent event_;
};

}  // namespace

absl::StatusOr<void*> CudaDevice::PoolAllocator::Allocate(int64_t bytes,
                                                          Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, device_.MakeCurrent());
  CUdeviceptr address = 0;
  KILN_CUDA_RETURN_IF_ERROR(device_.driver(), cuMemAllocAsync, &address,
                            static_cast<size_t>(bytes), StreamOf(stream));
  return reinterpret_cast<void*>(address);
}

void CudaDevice::PoolAllocator::Free(void* memory, int64_t, Stream stream) {
  const absl::StatusOr<CurrentDevice> current = device_.MakeCurrent();
  if (!current.ok()) return;
  const CudaDriver& driver = device_.driver();
  if (driver.cuMemFreeAsync(Address(memory), StreamOf(stream)) != 0) {
    // The stream is gone: wait for the device instead.
    driver.cuMemFree_v2(Address(memory));
  }
}

CudaDevice::CudaDevice(std::shared_ptr<const CudaDriver> driver, int ordinal)
    : driver_(std::move(driver)), allocator_(*this), segments_(*this) {
  traits_.kind = DeviceKind::kCuda;
  traits_.ordinal = ordinal;
  traits_.most_blocks = kMostBlocks;
}

CudaDevice::~CudaDevice() {
  {
    MutexLock lock(&mu_);
    strided_copy_.reset();
    dense_copies_ = DenseCopyKernels();
  }
  UnloadRetired();
  if (context_ == nullptr) return;
  // After a reset the context is others', who have begun it anew.
  const absl::StatusOr<unsigned long long> id = ContextId();
  if (id.ok() && *id == context_id_)
    driver_->cuDevicePrimaryCtxRelease_v2(device_);
}

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Open(
    int ordinal, const std::vector<std::string>& folders) {
  ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver,
                   CudaDriver::Open(folders));
  int count = 0;
  KILN_CUDA_RETURN_IF_ERROR(*driver, cuDeviceGetCount, &count);
  if (ordinal < 0 || ordinal >= count) {
    return MakeError(ErrorReason::kNoDevice,
                     absl::StrCat("cuda:", ordinal, ": this machine has ",
                                  count, " such devices"));
  }
  std::shared_ptr<CudaDevice> device(
      new CudaDevice(std::move(driver), ordinal));
  RETURN_IF_ERROR(device->Retain());
  RETURN_IF_ERROR(device->ReadTraits());
  return device;
}

absl::Status CudaDevice::Retain() {
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDeviceGet, &device_, traits_.ordinal);
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDevicePrimaryCtxRetain, &context_,
                            device_);
  ASSIGN_OR_RETURN(context_id_, ContextId());
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  // Keep what was freed: a step allocates what the last one gave back.
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDeviceGetDefaultMemPool, &pool_,
                            device_);
  uint64_t keep_all = std::numeric_limits<uint64_t>::max();
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemPoolSetAttribute, pool_,
                            kCudaPoolReleaseThreshold, &keep_all);
  return absl::OkStatus();
}

absl::Status CudaDevice::ReadTraits() {
  char name[256] = "";
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDeviceGetName, name,
                            static_cast<int>(sizeof(name) - 1), device_);
  traits_.name = name;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDeviceGetAttribute,
                            &traits_.compute_major, kCudaComputeCapabilityMajor,
                            device_);
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDeviceGetAttribute,
                            &traits_.compute_minor, kCudaComputeCapabilityMinor,
                            device_);
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDeviceGetAttribute,
                            &traits_.multiprocessors, kCudaMultiprocessorCount,
                            device_);
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuDriverGetVersion,
                            &traits_.driver_cuda_version);
  return absl::OkStatus();
}

absl::StatusOr<unsigned long long> CudaDevice::ContextId() const {
  unsigned long long id = 0;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuCtxGetId, context_, &id);
  return id;
}

absl::StatusOr<CurrentDevice> CudaDevice::MakeCurrent() const {
  unsigned long long id = 0;
  if (driver_->cuCtxGetId(context_, &id) != 0 || id != context_id_) {
    return MakeError(
        ErrorReason::kNoDevice,
        absl::StrCat("cuda:", traits_.ordinal,
                     ": another part of the program has reset the device; "
                     "what was made on it is gone until the program is "
                     "started again"));
  }
  CUcontext before = nullptr;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuCtxGetCurrent, &before);
  if (before == context_) return CurrentDevice();
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuCtxSetCurrent, context_);
  const auto restore = [](const void* device, void* context) {
    static_cast<const CudaDevice*>(device)->driver_->cuCtxSetCurrent(
        static_cast<CUcontext>(context));
  };
  return CurrentDevice(restore, this, before);
}

void CudaDevice::Retire(CUmodule module) const {
  MutexLock lock(&retired_mu_);
  retired_.push_back(module);
}

void CudaDevice::UnloadRetired() const {
  DoOutsideCaptures([this] {
    std::vector<CUmodule> retired;
    {
      MutexLock lock(&retired_mu_);
      retired.swap(retired_);
    }
    if (retired.empty()) return;
    // After a reset they are gone.
    const absl::StatusOr<CurrentDevice> current = MakeCurrent();
    if (!current.ok()) return;
    driver_->cuCtxSynchronize();
    for (CUmodule module : retired) driver_->cuModuleUnload(module);
  });
}

absl::StatusOr<std::unique_ptr<Module>> CudaDevice::LoadImage(
    const void* image) const {
  UnloadRetired();
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  CUmodule module = nullptr;
  const CUresult result = driver_->cuModuleLoadData(&module, image);
  const absl::Status status = driver_->Check(result, "cuModuleLoadData");
  if (result == kCudaErrorNoBinaryForGpu) {
    return MakeError(ErrorReason::kArtifactIncompatible,
                     absl::StrCat("module: ", status.message()));
  }
  if (result == kCudaErrorInvalidImage || result == kCudaErrorInvalidPtx ||
      result == kCudaErrorInvalidSource) {
    return MakeError(ErrorReason::kArtifactCorrupt,
                     absl::StrCat("module: ", status.message()));
  }
  RETURN_IF_ERROR(status);
  return std::make_unique<CudaModule>(*this, module);
}

absl::StatusOr<std::unique_ptr<Module>> CudaDevice::LoadModule(
    absl::string_view image) {
  if (!LooksLikeCubin(image)) {
    return MakeError(
        ErrorReason::kArtifactCorrupt,
        absl::StrCat("module of ", image.size(), " bytes: is no cubin"));
  }
  return LoadImage(image.data());
}

absl::StatusOr<std::unique_ptr<Marker>> CudaDevice::MakeMarker() {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  CUevent event = nullptr;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuEventCreate, &event,
                            kCudaEventDisableTiming);
  return std::make_unique<CudaMarker>(*this, event);
}

absl::Status CudaDevice::Launch(const KernelLaunch& launch, Stream stream) {
  // Before the extents become the 32 bits that the driver takes.
  RETURN_IF_ERROR(CheckGrid(traits_, launch.grid));
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  const CUfunction function = static_cast<CUfunction>(launch.kernel);
  // All parameters of our kernels have 8 bytes, so they lie side by side as the
  // kernel takes them; the address of each, which the driver takes too, costs a
  // launch with 200 of them a quarter more. All of the 4096 bytes that a kernel
  // may take (kernel_plan.h) fit without an allocation.
  absl::FixedArray<uint64_t, 512> packed(launch.order.size());
  uint64_t* place = packed.data();
  for (const int32_t at : launch.order) {
    *place++ = at >= 0 ? reinterpret_cast<uintptr_t>(launch.buffers.data()[at])
                       : static_cast<uint64_t>(launch.scalars.data()[~at]);
  }
  size_t packed_bytes = packed.size() * sizeof(uint64_t);
  void* arguments[] = {kCudaPackedArguments, packed.data(),
                       kCudaPackedArgumentsBytes, &packed_bytes,
                       kCudaPackedArgumentsEnd};
  LaunchAttributes attributes(launch);
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(launch.grid[0]);
  config.gridDimY = static_cast<unsigned>(launch.grid[1]);
  config.gridDimZ = static_cast<unsigned>(launch.grid[2]);
  config.blockDimX = launch.block[0];
  config.blockDimY = launch.block[1];
  config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.shared_bytes;
  config.hStream = StreamOf(stream);
  config.attrs = attributes.data();
  config.numAttrs = attributes.count();
  const CUresult result =
      driver_->cuLaunchKernelEx(&config, function, nullptr, arguments);
  if (result == kCudaErrorLaunchOutOfResources) {
    return MakeError(
        ErrorReason::kArtifactIncompatible,
        absl::StrCat("out of resource: a block of ", launch.block[0], " x ",
                     launch.block[1], " x ", launch.block[2], " threads with ",
                     launch.shared_bytes, " bytes of dynamic shared memory"));
  }
  return driver_->Check(result, "cuLaunchKernelEx");
}

absl::Status CudaDevice::Fill(void* to, int64_t element_bytes, int64_t elements,
                              uint64_t bits, Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  const CUdeviceptr at = Address(to);
  const CUstream on = StreamOf(stream);
  const size_t count = static_cast<size_t>(elements);
  switch (element_bytes) {
    case 1:
      KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemsetD8Async, at,
                                static_cast<unsigned char>(bits), count, on);
      break;
    case 2:
      KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemsetD16Async, at,
                                static_cast<unsigned short>(bits), count, on);
      break;
    case 4:
      KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemsetD32Async, at,
                                static_cast<unsigned>(bits), count, on);
      break;
    default: {
      const unsigned low = static_cast<unsigned>(bits);
      const unsigned high = static_cast<unsigned>(bits >> 32);
      if (low == high) {
        KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemsetD32Async, at, low,
                                  2 * count, on);
        break;
      }
      // Every other word, twice: rows of one word, eight bytes apart.
      KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemsetD2D32Async, at, 8, low, 1,
                                count, on);
      KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemsetD2D32Async, at + 4, 8, high,
                                1, count, on);
    }
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::Upload(const void* host, void* device, int64_t bytes,
                                Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemcpyHtoDAsync_v2, Address(device),
                            host, static_cast<size_t>(bytes), StreamOf(stream));
  // Pinned memory is read later than the call returns; ours need not be alive
  // then.
  return Synchronize(stream);
}

absl::Status CudaDevice::Download(const void* device, void* host, int64_t bytes,
                                  Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuMemcpyDtoHAsync_v2, host,
                            Address(device), static_cast<size_t>(bytes),
                            StreamOf(stream));
  return Synchronize(stream);
}

absl::Status CudaDevice::Synchronize(Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuStreamSynchronize, StreamOf(stream));
  return absl::OkStatus();
}

}  // namespace kiln
