#include "runtime/cpu_device.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/shared_object.h"

namespace kiln {
namespace {

// Below this a copy or fill is done before a second thread has woken.
constexpr int64_t kParallelBytes = 256 * 1024;

int HostCpuLevel() {
  __builtin_cpu_init();
  const bool v2 = __builtin_cpu_supports("sse4.2") &&
                  __builtin_cpu_supports("ssse3") &&
                  __builtin_cpu_supports("popcnt");
  if (!v2) return 1;
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  if (!v3) return 2;
  const bool v4 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return v4 ? 4 : 3;
}

// Intel SDM, CPUID leaf 7, EDX: bit 22 AMX-BF16, bit 24 AMX-TILE; XCR0 bits 17
// and 18 say that the operating system saves the tiles.
bool HostHasAmxBf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(1, 0, &eax, &ebx, &ecx, &edx)) return false;
  if ((ecx & (1u << 27)) == 0) return false;  // no XGETBV
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  if ((edx & (1u << 22)) == 0 || (edx & (1u << 24)) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & (3u << 17)) == (3u << 17);
}

class CpuMarker final : public Marker {
 public:
  // Work is over when a call returns: there is nothing to wait for.
  absl::Status Record(Stream) override { return absl::OkStatus(); }
  absl::Status Wait(Stream) override { return absl::OkStatus(); }
};

class CpuStream final : public OwnedStream {
 public:
  // Any address that is not null will do.
  Stream get() const override { return const_cast<CpuStream*>(this); }
};

struct CopyWork {
  const StridedView* from;
  const StridedView* to;
};

// Rows [begin, end) of the outermost dimension.
void CopyRows(void* context, int64_t begin, int64_t end) {
  const CopyWork& work = *static_cast<const CopyWork*>(context);
  absl::InlinedVector<int64_t, 6> sizes(work.from->sizes.begin(),
                                        work.from->sizes.end());
  sizes[0] = end - begin;
  StridedView from = *work.from;
  StridedView to = *work.to;
  from.sizes = sizes;
  to.sizes = sizes;
  from.data = static_cast<char*>(from.data) +
              begin * from.strides[0] * from.element_bytes;
  to.data =
      static_cast<char*>(to.data) + begin * to.strides[0] * to.element_bytes;
  CopyStrided(from, to);
}

struct FillWork {
  char* to;
  int64_t element_bytes;
  uint64_t bits;
};

void FillPiece(void* context, int64_t begin, int64_t end) {
  const FillWork& work = *static_cast<const FillWork*>(context);
  FillElements(work.to + begin * work.element_bytes, work.element_bytes,
               end - begin, work.bits);
}

}  // namespace

DeviceTraits HostTraits() {
  DeviceTraits traits;
  traits.kind = DeviceKind::kCpu;
  traits.name = "cpu";
  traits.cpu_level = HostCpuLevel();
  traits.avx512_bf16 = __builtin_cpu_supports("avx512bf16");
  traits.amx_bf16 = traits.cpu_level == 4 && HostHasAmxBf16();
  traits.threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return traits;
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options)
    : traits_(HostTraits()),
      allocator_(options.max_kept_bytes),
      threads_(options.threads > 0 ? options.threads : traits_.threads,
               ThreadPool::ProgramsTeam()) {
  traits_.threads = threads_.threads();
  lent_.threads = threads_.threads();
  lent_.pool = &threads_;
  lent_.parallel_for = [](const KilnCpuRuntime* self, int64_t count,
                          int64_t grain, void (*body)(void*, int64_t, int64_t),
                          void* context) {
    static_cast<const LentThreads*>(self)->pool->ParallelFor(
        count, std::max<int64_t>(grain, 1), body, context);
  };
}

absl::StatusOr<std::unique_ptr<Module>> CpuDevice::LoadModule(
    absl::string_view image) {
  return LoadSharedObject(image);
}

absl::StatusOr<std::unique_ptr<OwnedStream>> CpuDevice::MakeStream() {
  return std::make_unique<CpuStream>();
}

absl::StatusOr<std::unique_ptr<Marker>> CpuDevice::MakeMarker() {
  return std::make_unique<CpuMarker>();
}

absl::Status CpuDevice::Launch(const KernelLaunch& launch, Stream) {
  KilnBadData bad = {};
  LentThreads lent = lent_;
  lent.bad_data = &bad;
  reinterpret_cast<KilnCpuKernel>(launch.kernel)(launch.buffers.data(),
                                                 launch.scalars.data(), &lent);
  if (bad.found == 0) return absl::OkStatus();
  if (bad.found == 2) return absl::FailedPreconditionError(bad.text);
  return absl::OutOfRangeError(
      absl::StrCat("index out of bounds: index ", bad.index,
                   " of a dimension of size ", bad.size));
}

absl::Status CpuDevice::Copy(const StridedView& from, const StridedView& to,
                             Stream) {
  int64_t bytes = from.element_bytes;
  for (const int64_t size : from.sizes) bytes *= size;
  if (bytes < kParallelBytes || from.sizes.empty()) {
    CopyStrided(from, to);
    return absl::OkStatus();
  }
  CopyWork work{&from, &to};
  const int64_t row_bytes = std::max<int64_t>(1, bytes / from.sizes[0]);
  const int64_t grain = std::max<int64_t>(1, kParallelBytes / row_bytes);
  threads_.ParallelFor(from.sizes[0], grain, CopyRows, &work);
  return absl::OkStatus();
}

absl::Status CpuDevice::CopyAll(absl::Span<const DenseCopy> copies, Stream) {
  CopyDense(copies);
  return absl::OkStatus();
}

absl::Status CpuDevice::Fill(void* to, int64_t element_bytes, int64_t elements,
                             uint64_t bits, Stream) {
  FillWork work{static_cast<char*>(to), element_bytes, bits};
  threads_.ParallelFor(elements, kParallelBytes / element_bytes, FillPiece,
                       &work);
  return absl::OkStatus();
}

absl::Status CpuDevice::Upload(const void* host, void* device, int64_t bytes,
                               Stream) {
  std::memcpy(device, host, bytes);
  return absl::OkStatus();
}

absl::Status CpuDevice::Download(const void* device, void* host, int64_t bytes,
                                 Stream) {
  std::memcpy(host, device, bytes);
  return absl::OkStatus();
}

absl::Status CpuDevice::Synchronize(Stream) { return absl::OkStatus(); }

absl::Status CpuDevice::BeginCapture(Stream) {
  return absl::UnimplementedError("cpu: its work is not captured");
}

absl::StatusOr<std::unique_ptr<CapturedGraph>> CpuDevice::EndCapture(Stream) {
  return absl::FailedPreconditionError("cpu: no capture");
}

}  // namespace kiln
