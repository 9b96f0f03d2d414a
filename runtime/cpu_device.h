#ifndef KILN_RUNTIME_CPU_DEVICE_H_
#define KILN_RUNTIME_CPU_DEVICE_H_

#include <cstdint>
#include <memory>

#include "proto/kernel_abi.h"
#include "runtime/device.h"
#include "runtime/host_memory.h"
#include "runtime/thread_pool.h"

namespace kiln {

// What this processor and operating system offer: level, bf16 extensions,
// cores the process may use.
DeviceTraits HostTraits();

struct CpuDeviceOptions {
  // Threads a kernel may use; 0: as many as there are cores for the process.
  int threads = 0;
  // Freed memory kept for the next call, in bytes. Too small and every step
  // pays for fresh pages; too large and the program holds memory it has freed.
  int64_t max_kept_bytes = int64_t{1} << 30;
};

// The processor. Work is done on the calling thread, helped by the pool, and
// finished when a call returns; streams are not looked at, and nothing is
// captured. Modules are shared objects (shared_object.h), kernels are called by
// proto/kernel_abi.h.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options);

  const DeviceTraits& traits() const override { return traits_; }
  absl::StatusOr<CurrentDevice> MakeCurrent() const override {
    return CurrentDevice();
  }
  Allocator& allocator() override { return allocator_; }
  Allocator& segments() override { return allocator_; }
  // For the extern kernels, which share these threads.
  ThreadPool& threads() { return threads_; }

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
  bool IsCaptured(Stream) const override { return false; }

 private:
  // What kernels see of the pool.
  struct LentThreads : KilnCpuRuntime {
    ThreadPool* pool = nullptr;
  };

  DeviceTraits traits_;
  HostAllocator allocator_;
  ThreadPool threads_;
  LentThreads lent_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_CPU_DEVICE_H_
