// kiln-worker: one compile process. Requests come in frames on descriptor 3 and
// are answered one at a time, in order (proto/worker.proto), in a jail that is
// shut before the first is read (enter_jail.h). Ends with 0 when the stream ends,
// with 1 when what comes is not a request, with 2 without a jail, with 3 when the
// host compiler was replaced meanwhile.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "compiler/answer_work.h"
#include "compiler/compiler_sources.h"
#include "compiler/keep_freed_memory.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/jail/enter_jail.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"
#include "runtime/device_target.h"

namespace kiln {
namespace {

constexpr int kSocketFd = 3;

std::string Environment(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr ? value : otherwise;
}

// Times kernels with the runtime's devices, opened when first needed.
class RuntimeStopwatch final : public Stopwatch {
 public:
  explicit RuntimeStopwatch(std::vector<std::string> folders)
      : folders_(std::move(folders)) {}

  absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                       int repeats) override {
    ASSIGN_OR_RETURN(Device* const device, DeviceFor(kernel));
    ASSIGN_OR_RETURN(const auto module, device->LoadModule(kernel.image));
    KernelLaunch launch;
    ASSIGN_OR_RETURN(launch.kernel,
                     module->FindKernel(kernel.symbol, kernel.shared_bytes));
    std::vector<void*> buffers;
    absl::Status status;
    for (int64_t bytes : kernel.buffer_bytes) {
      const auto memory = device->allocator().Allocate(bytes, nullptr);
      status = memory.status();
      if (!status.ok()) break;
      buffers.push_back(*memory);
      status = device->Fill(*memory, 1, bytes, 0, nullptr);
      if (!status.ok()) break;
    }
    launch.buffers = buffers;
    launch.scalars = kernel.scalars;
    launch.order = kernel.order;
    std::copy(std::begin(kernel.grid), std::end(kernel.grid), launch.grid);
    std::copy(std::begin(kernel.block), std::end(kernel.block), launch.block);
    launch.shared_bytes = kernel.shared_bytes;
    absl::StatusOr<double> median = absl::InternalError("stopwatch: not run");
    if (status.ok()) {
      median = Time(*device, launch, repeats);
    } else {
      median = status;
    }
    for (size_t b = 0; b < buffers.size(); ++b)
      device->allocator().Free(buffers[b], kernel.buffer_bytes[b], nullptr);
    return median;
  }

 private:
  static constexpr int kWarmRuns = 3;
  static constexpr int kLaunchesARun = 5;

  static absl::StatusOr<double> Time(Device& device, const KernelLaunch& launch,
                                     int repeats) {
    std::vector<double> seconds;
    for (int run = -kWarmRuns; run < repeats; ++run) {
      const SteadyTime start = SteadyNow();
      for (int i = 0; i < kLaunchesARun; ++i)
        RETURN_IF_ERROR(device.Launch(launch, nullptr));
      RETURN_IF_ERROR(device.Synchronize(nullptr));
      if (run >= 0)
        seconds.push_back(absl::ToDoubleSeconds(Since(start)) / kLaunchesARun);
    }
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2,
                     seconds.end());
    return seconds[seconds.size() / 2];
  }

  // NO_DEVICE also when the device can't run what the image is for.
  absl::StatusOr<Device*> DeviceFor(const TimedKernel& kernel) {
    wire::Target target;
    Device* device = nullptr;
    if (kernel.kind == TargetKind::kCuda) {
      target.mutable_cuda()->set_arch(kernel.target);
      if (cuda_ == nullptr) {
        ASSIGN_OR_RETURN(cuda_, CudaDevice::Open(0, folders_));
      }
      device = cuda_.get();
    } else {
      target.mutable_cpu()->set_level(kernel.target);
      if (cpu_ == nullptr)
        cpu_ = std::make_unique<CpuDevice>(CpuDeviceOptions());
      device = cpu_.get();
    }
    const absl::Status fits = CheckTarget(target, device->traits());
    if (!fits.ok()) return MakeError(ErrorReason::kNoDevice, fits.message());
    return device;
  }

  const std::vector<std::string> folders_;
  std::shared_ptr<CudaDevice> cuda_;
  std::unique_ptr<CpuDevice> cpu_;
};

WorkBench MakeBench() {
  const std::string path = Environment("PATH", "/usr/local/bin:/usr/bin:/bin");
  NvrtcConfig nvrtc;
  nvrtc.only_dir = Environment("KILN_NVRTC", "");
  for (absl::string_view folder : absl::StrSplit(
           Environment("KILN_CUDA_LIBRARY_PATH", ""), ':', absl::SkipEmpty())) {
    nvrtc.library_dirs.emplace_back(folder);
  }
  for (std::string& folder : UsualCudaFolders())
    nvrtc.library_dirs.push_back(std::move(folder));
  WorkBench bench;
  bench.host = MakeHostCcToolchain({.compiler = Environment("KILN_HOST_CC", ""),
                                    .search_path = path,
                                    .scratch_dir = Environment("TMPDIR", ".")});
  bench.stopwatch = std::make_unique<RuntimeStopwatch>(nvrtc.library_dirs);
  bench.nvrtc = MakeNvrtcToolchain(std::move(nvrtc));
  bench.build_identity = absl::HexStringToBytes(kCompilerSources);
  return bench;
}

int Serve() {
  fcntl(kSocketFd, F_SETFD, FD_CLOEXEC);
  WorkBench bench = MakeBench();
  while (true) {
    const absl::StatusOr<std::string> bytes = ReadFrame(kSocketFd);
    if (!bytes.ok()) return absl::IsUnavailable(bytes.status()) ? 0 : 1;
    wire::WorkRequest request;
    if (!request.ParseFromString(*bytes)) return 1;
    const wire::WorkReply reply = AnswerWork(bench, request);
    if (bench.host->Replaced()) {
      std::fprintf(stderr,
                   "kiln-worker: the host compiler is not the one that the "
                   "first reply told of; the next worker tells of it\n");
      return 3;
    }
    if (!WriteFrame(kSocketFd, reply.SerializeAsString()).ok()) return 0;
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::EnterJail(argc, argv);
  kiln::KeepFreedMemory();
  return kiln::Serve();
}
