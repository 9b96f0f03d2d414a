#ifndef KILN_RUNTIME_CUDA_DEVICE_H_
#define KILN_RUNTIME_CUDA_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "proto/base/mutex.h"
#include "runtime/cuda_driver.h"
#include "runtime/device.h"

namespace kiln {

// An NVIDIA GPU through the CUDA driver. Retains the device's primary context
// (the one that CUDA's runtime and PyTorch use) and never resets it. A call makes
// it the thread's current context and gives back the one before, which decides
// what CUDA's runtime and PyTorch take for the current device.
//
// Memory comes from the driver's stream-ordered pool, which keeps what was
// freed. A stream that is handed in must outlive the memory that was allocated
// for it.
class CudaDevice final : public Device {
 public:
  // NO_DEVICE  no driver, or no GPU with this ordinal
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Open(
      int ordinal, const std::vector<std::string>& folders);

  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return *driver_; }

  // A module that nobody calls any more. Its kernels may still run on any stream,
  // so it is unloaded when the device has been waited for. That is when the next
  // module is loaded, and no capture is under way: whoever drops a program, as a
  // garbage collector does at any point, waits for nothing and breaks no capture.
  void Retire(CUmodule module) const ABSL_LOCKS_EXCLUDED(retired_mu_);

  const DeviceTraits& traits() const override { return traits_; }
  // The libraries of extern kernels need it too. Nothing that was made before a
  // reset of the device may be used or destroyed after it: so whoever destroys
  // asks first.
  //
  // NO_DEVICE  the device was reset by someone else
  absl::StatusOr<CurrentDevice> MakeCurrent() const override;
  Allocator& allocator() override { return allocator_; }
  Allocator& segments() override { return segments_; }
  absl::StatusOr<std::unique_ptr<Module>> LoadModule(
      absl::string_view image) override;
  absl::StatusOr<std::unique_ptr<OwnedStream>> MakeStream() override;
  absl::StatusOr<std::unique_ptr<Marker>> MakeMarker() override;
  absl::Status Launch(const KernelLaunch& launch, Stream stream) override;
  absl::Status Copy(const StridedView& from, const StridedView& to,
                    Stream stream) override;
  absl::Status CopyAll(absl::Span<const DenseCopy> copies,
                       Stream stream) override;
  absl::Status Fill(void* to, int64_t element_bytes, int64_t elements,
                    uint64_t bits, Stream stream) override;
  absl::Status Upload(const void* host, void* device, int64_t bytes,
                      Stream stream) override;
  absl::Status Download(const void* device, void* host, int64_t bytes,
                        Stream stream) override;
  absl::Status Synchronize(Stream stream) override;
  absl::Status BeginCapture(Stream stream) override;
  absl::StatusOr<std::unique_ptr<CapturedGraph>> EndCapture(
      Stream stream) override;
  bool IsCaptured(Stream stream) const override;

 private:
  class PoolAllocator final : public Allocator {
   public:
    explicit PoolAllocator(const CudaDevice& device) : device_(device) {}
    absl::StatusOr<void*> Allocate(int64_t bytes, Stream stream) override;
    void Free(void* memory, int64_t bytes, Stream stream) override;

   private:
    const CudaDevice& device_;
  };

  // cuMemAlloc, which the driver maps at once and keeps none of. Where that has no
  // more, what the other allocator keeps of done work is given back first.
  class SegmentAllocator final : public Allocator {
   public:
    explicit SegmentAllocator(const CudaDevice& device) : device_(device) {}
    absl::StatusOr<void*> Allocate(int64_t bytes, Stream stream) override;
    void Free(void* memory, int64_t bytes, Stream stream) override;

   private:
    const CudaDevice& device_;
  };

  CudaDevice(std::shared_ptr<const CudaDriver> driver, int ordinal);

  absl::Status Retain();
  absl::StatusOr<unsigned long long> ContextId() const;
  absl::Status ReadTraits();
  void UnloadRetired() const ABSL_LOCKS_EXCLUDED(retired_mu_);
  // An image of any kind that the driver takes.
  absl::StatusOr<std::unique_ptr<Module>> LoadImage(const void* image) const;

  // Of few runs and of many; null where the driver cannot load them, which is
  // logged once: then copies are put one by one.
  struct DenseCopyHandles {
    KernelHandle few = nullptr;
    KernelHandle many = nullptr;
  };
  struct DenseCopyKernels : DenseCopyHandles {
    bool was_tried = false;
    std::unique_ptr<Module> module;
  };
  absl::StatusOr<KernelHandle> StridedCopyKernel() ABSL_LOCKS_EXCLUDED(mu_);
  DenseCopyHandles DenseCopiesKernels() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status LoadDenseCopies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<const CudaDriver> driver_;
  DeviceTraits traits_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;        // of `allocator_`; the driver's own
  unsigned long long context_id_ = 0;  // a reset gives the context another one
  PoolAllocator allocator_;
  SegmentAllocator segments_;
  mutable Mutex retired_mu_;
  mutable std::vector<CUmodule> retired_ ABSL_GUARDED_BY(retired_mu_);
  Mutex mu_;
  // Loaded when a copy first needs them.
  std::unique_ptr<Module> strided_copy_ ABSL_GUARDED_BY(mu_);
  DenseCopyKernels dense_copies_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_RUNTIME_CUDA_DEVICE_H_
