#ifndef KILN_RUNTIME_DEVICE_H_
#define KILN_RUNTIME_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/dtype.h"

// What a backend must do for the rest of the runtime: load object code, hold
// memory, run kernels, copy and fill. null_device, cpu_device and cuda_device
// implement it; one conformance suite holds them to this page.

namespace kiln {

enum class DeviceKind {
  kNull,  // accepts everything, computes nothing; memory is the host's
  kCpu,
  kCuda,
};

// A queue of work. On CUDA a CUstream, which is also a cudaStream_t; null is
// the legacy default stream. Elsewhere work is done when a call returns, and
// the stream is not looked at.
using Stream = void*;

// What a device is: decides which artifacts it takes (device_target.h).
struct DeviceTraits {
  DeviceKind kind = DeviceKind::kNull;
  int ordinal = 0;
  std::string name;  // for people: "cpu", "NVIDIA H200"
  // CPU
  int cpu_level = 1;  // 1 to 4: x86-64, x86-64-v2, -v3, -v4
  bool avx512_bf16 = false;
  bool amx_bf16 = false;
  int threads = 1;  // that parallel_for may use
  // CUDA
  int compute_major = 0;
  int compute_minor = 0;
  int driver_cuda_version = 0;  // as 13000
  int multiprocessors = 0;
  // Of a grid, in each dimension.
  std::array<int64_t, 3> most_blocks = {std::numeric_limits<int64_t>::max(),
                                        std::numeric_limits<int64_t>::max(),
                                        std::numeric_limits<int64_t>::max()};
};

// ARTIFACT_INCOMPATIBLE when an extent of a grid, none of which is empty, is
// larger than the device takes.
absl::Status CheckGrid(const DeviceTraits& traits,
                       absl::Span<const int64_t> grid);

// Gives and takes back memory of one device. A framework may lend its own for
// the outputs of a call. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // At least `bytes` > 0 bytes at an address that is a multiple of 64 (CPU) or
  // 256 (CUDA), for use by work that is put on `stream` from now on.
  //
  // RESOURCE_EXHAUSTED when there is no such memory.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes, Stream stream) = 0;

  // Takes back what Allocate gave for `stream`. Work already on that stream may
  // still use it; the stream still exists.
  virtual void Free(void* memory, int64_t bytes, Stream stream) = 0;
};

// A kernel of a loaded module; valid as long as the module.
using KernelHandle = void*;

// Object code on a device. Unloads when destroyed, after the work that uses it.
// Thread-compatible.
class Module {
 public:
  virtual ~Module() = default;

  // `shared_bytes`: the most dynamic shared memory that a launch of it asks for.
  //
  // ARTIFACT_CORRUPT       the module exports no such kernel
  // ARTIFACT_INCOMPATIBLE  "out of resource": no block of the device has so much
  //                        shared memory
  virtual absl::StatusOr<KernelHandle> FindKernel(
      const std::string& symbol, uint32_t shared_bytes) const = 0;
};

// One launch, its arguments evaluated.
//
// On the CPU `buffers` and `scalars` go to the kernel as they are
// (proto/kernel_abi.h). CUDA takes them in signature order: `order` has one
// entry an argument, i >= 0 for buffers[i] and ~i for scalars[i].
struct KernelLaunch {
  KernelHandle kernel = nullptr;
  absl::Span<void* const> buffers;
  absl::Span<const int64_t> scalars;
  absl::Span<const int32_t> order;
  int64_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  uint32_t cluster = 0;  // blocks a cluster along x; 0: none
  bool programmatic_dependent_launch = false;  // CUDA
};

// A strided window, with its numbers known.
struct StridedView {
  void* data = nullptr;  // the first element
  int64_t element_bytes = 1;
  absl::Span<const int64_t> sizes;
  absl::Span<const int64_t> strides;  // in elements
};

// A run of bytes from one place to another.
struct DenseCopy {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
};

// A point in a stream that other streams can wait for. One thread.
class Marker {
 public:
  virtual ~Marker() = default;
  // The point is now the end of `stream`.
  virtual absl::Status Record(Stream stream) = 0;
  // Work put on `stream` from now on starts after the point. Nothing when
  // there was no Record.
  virtual absl::Status Wait(Stream stream) = 0;
};

// A stream of a device's own. Goes when destroyed, after its work.
class OwnedStream {
 public:
  virtual ~OwnedStream() = default;
  virtual Stream get() const = 0;  // never null
};

// Work that was captured, ready to run as a whole. Keeps neither the memory nor
// the modules that it uses. One launch at a time; may be destroyed while a
// launch runs.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;

  // Puts all of it on `stream`, any number of times. Addresses and scalars are as
  // they were at the capture. The memory's contents are read at each launch.
  virtual absl::Status Launch(Stream stream) = 0;

  // The number of its kernels, copies and fills.
  virtual int64_t size() const = 0;
};

// While it lives, one device is the calling thread's current one; then it is
// again the one that was before. Guards of a thread end in reverse order.
class CurrentDevice {
 public:
  // Gives the thread back what was current.
  using Restore = void (*)(const void* device, void* before);

  CurrentDevice() = default;  // nothing to give back
  CurrentDevice(Restore restore, const void* device, void* before)
      : restore_(restore), device_(device), before_(before) {}
  CurrentDevice(CurrentDevice&& other) noexcept
      : restore_(std::exchange(other.restore_, nullptr)),
        device_(other.device_),
        before_(other.before_) {}
  ~CurrentDevice() {
    if (restore_ != nullptr) restore_(device_, before_);
  }

 private:
  Restore restore_ = nullptr;
  const void* device_ = nullptr;
  void* before_ = nullptr;
};

// A backend. Thread-safe. Work put on one stream runs in order; OK from Launch,
// Copy and Fill means that it was accepted, and that it is done only after
// Synchronize. Memory arguments are addresses on this device unless said
// otherwise. Every call leaves the thread's current device as it was.
class Device {
 public:
  virtual ~Device() = default;

  // Fixed for the device's life.
  virtual const DeviceTraits& traits() const = 0;

  // Every call does this for itself. Who makes many calls does it once for all of
  // them, so that the thread changes its device once. Nothing where no device is a
  // thread's current one: on the host.
  virtual absl::StatusOr<CurrentDevice> MakeCurrent() const = 0;

  // The device's own memory. Lives as long as the device.
  virtual Allocator& allocator() = 0;

  // Memory for an allocator that keeps what it takes: bound to no stream, so
  // that the stream is not looked at; may be taken while this thread captures.
  // Giving back waits for the device. Lives as long as the device.
  virtual Allocator& segments() = 0;

  virtual absl::StatusOr<std::unique_ptr<OwnedStream>> MakeStream() = 0;

  // Loads a cubin (CUDA) or a shared object (CPU). Launches nothing. `image`
  // need not outlive the call.
  //
  // ARTIFACT_CORRUPT       the image is not object code
  // ARTIFACT_INCOMPATIBLE  it is for another architecture
  virtual absl::StatusOr<std::unique_ptr<Module>> LoadModule(
      absl::string_view image) = 0;

  virtual absl::StatusOr<std::unique_ptr<Marker>> MakeMarker() = 0;

  // Runs a kernel. The caller has skipped launches of an empty grid.
  // ARTIFACT_INCOMPATIBLE when the grid is larger than the device takes, and "out
  // of resource" when a block needs more than it has.
  virtual absl::Status Launch(const KernelLaunch& launch, Stream stream) = 0;

  // Copies `from` to `to`: equal sizes and element_bytes, no overlap.
  virtual absl::Status Copy(const StridedView& from, const StridedView& to,
                            Stream stream) = 0;

  // All of them, as few launches as the device can do it in. What one reads or
  // writes no other writes.
  virtual absl::Status CopyAll(absl::Span<const DenseCopy> copies,
                               Stream stream) = 0;

  // Writes the low element_bytes of `bits` into `elements` elements at `to`.
  virtual absl::Status Fill(void* to, int64_t element_bytes, int64_t elements,
                            uint64_t bits, Stream stream) = 0;

  // Between the host and the device. Upload may return before the copy is
  // done but has read `host`; Download returns when `host` is written.
  virtual absl::Status Upload(const void* host, void* device, int64_t bytes,
                              Stream stream) = 0;
  virtual absl::Status Download(const void* device, void* host, int64_t bytes,
                                Stream stream) = 0;

  // Returns when all work on `stream` is done. A kernel that failed is
  // reported here or at a later call: INTERNAL, naming the driver's error.
  virtual absl::Status Synchronize(Stream stream) = 0;

  // From here to EndCapture what is put on `stream`, or on one that waits for a
  // Marker of it, is not run but kept. All of it must be waited for by `stream`
  // at the end. What waits for the device (Upload, Download, Synchronize of such
  // a stream) is refused with FAILED_PRECONDITION and breaks the capture; so is,
  // on this thread, whatever else could not be kept.
  //
  // UNIMPLEMENTED        a device that captures nothing: the CPU
  // FAILED_PRECONDITION  the null stream, or one that is captured already
  virtual absl::Status BeginCapture(Stream stream) = 0;

  // What was kept. The stream runs its work again, also after an error.
  //
  // FAILED_PRECONDITION  no capture, or a broken one
  virtual absl::StatusOr<std::unique_ptr<CapturedGraph>> EndCapture(
      Stream stream) = 0;

  // Whether what is put on `stream` now is kept rather than run.
  virtual bool IsCaptured(Stream stream) const = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_DEVICE_H_
