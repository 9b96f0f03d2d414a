// kiln-worker: one compile process. It reads requests as frames on descriptor 3 and
// answers them one at a time, in order (proto/worker.proto). It enters its jail before it
// reads the first one (enter_jail.h).
//
// Exit status: 0 at the end of the stream; 1 for bytes that are not a request; 2 without
// a jail; 3 when the host compiler was replaced.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "compiler/answer_work.h"
#include "compiler/compiler_sources.h"
#include "compiler/keep_freed_memory.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/jail/enter_jail.h"
#include "proto/jail/lowest_priority.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda_device.h"
#include "runtime/device_target.h"
#include "runtime/extern_kernels/cuda_externs.h"
#include "runtime/extern_kernels/read_extern_call.h"

namespace kiln {
namespace {

constexpr int kSocketFd = 3;

std::string Environment(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr ? value : otherwise;
}

// The memory of one measurement; frees it at the end.
class TimedBuffers {
 public:
  explicit TimedBuffers(Device& device) : device_(device) {}
  ~TimedBuffers() {
    for (size_t b = 0; b < addresses_.size(); ++b)
      device_.allocator().Free(addresses_[b], bytes_[b], nullptr);
  }
  TimedBuffers(const TimedBuffers&) = delete;
  TimedBuffers& operator=(const TimedBuffers&) = delete;

  // Allocates `bytes` more and sets each byte to `byte`.
  absl::Status Add(int64_t bytes, uint8_t byte) {
    ASSIGN_OR_RETURN(void* const memory,
                     device_.allocator().Allocate(bytes, nullptr));
    addresses_.push_back(memory);
    bytes_.push_back(bytes);
    return device_.Fill(memory, 1, bytes, byte, nullptr);
  }

  absl::Span<void* const> addresses() const { return addresses_; }

 private:
  Device& device_;
  std::vector<void*> addresses_;
  std::vector<int64_t> bytes_;
};

// A call in the runtime's form. It refers to the TimedCall, which must outlive it.
struct ReadCall {
  explicit ReadCall(const TimedCall& call) {
    for (const auto& operand : call.inputs) inputs.push_back(View(operand));
    for (const auto& operand : call.outputs) outputs.push_back(View(operand));
    for (const TimedCall::Attribute& attribute : call.attributes) {
      ExternAttribute& out = attributes.emplace_back();
      out.name = attribute.name;
      if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
        out.value = *i;
      } else if (const auto* f = std::get_if<double>(&attribute.value)) {
        out.value = *f;
      } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
        out.value = absl::string_view(*s);
      } else {
        out.value = absl::Span<const int64_t>(
            std::get<std::vector<int64_t>>(attribute.value));
      }
    }
  }

  static ExternOperand View(const TimedCall::Operand& operand) {
    return {operand.dtype, operand.sizes, operand.strides};
  }

  std::vector<ExternOperand> inputs;
  std::vector<ExternOperand> outputs;
  std::vector<ExternAttribute> attributes;
};

absl::StatusOr<ExternPart> PartOf(const TimedCall& call) {
  const ReadCall read(call);
  return ReadExternCall(
      {call.name, read.inputs, read.outputs, read.attributes});
}

// From the first element of a view to its last.
int64_t BytesOf(const TimedCall::Operand& operand) {
  int64_t last = 0;
  for (size_t d = 0; d < operand.sizes.size(); ++d)
    last += std::max<int64_t>(0, operand.sizes[d] - 1) * operand.strides[d];
  return (last + 1) * SizeInBytes(operand.dtype);
}

// Times kernels and library calls on the runtime's devices. A device is opened when it
// is first needed.
class RuntimeStopwatch final : public Stopwatch {
 public:
  explicit RuntimeStopwatch(std::vector<std::string> folders)
      : folders_(std::move(folders)) {}

  absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                       int repeats) override {
    ASSIGN_OR_RETURN(Device* const device,
                     DeviceFor(kernel.kind, kernel.target));
    ASSIGN_OR_RETURN(const auto module, device->LoadModule(kernel.image));
    KernelLaunch launch;
    ASSIGN_OR_RETURN(launch.kernel,
                     module->FindKernel(kernel.symbol, kernel.shared_bytes));
    TimedBuffers buffers(*device);
    for (const int64_t bytes : kernel.buffer_bytes)
      RETURN_IF_ERROR(buffers.Add(bytes, 0));
    launch.buffers = buffers.addresses();
    launch.scalars = kernel.scalars;
    launch.order = kernel.order;
    std::copy(std::begin(kernel.grid), std::end(kernel.grid), launch.grid);
    std::copy(std::begin(kernel.block), std::end(kernel.block), launch.block);
    launch.shared_bytes = kernel.shared_bytes;
    return Time(*device, repeats,
                [&](Stream stream) { return device->Launch(launch, stream); });
  }

  absl::StatusOr<double> MedianSeconds(const TimedCall& call,
                                       int repeats) override {
    ASSIGN_OR_RETURN(ExternLibrary* const library, LibraryFor(call));
    ASSIGN_OR_RETURN(const ExternPart part, PartOf(call));
    ASSIGN_OR_RETURN(const auto prepared, library->Prepare(part.problem));
    TimedBuffers buffers(*cuda_);
    // Small numbers of every float type: products of zeros take less power.
    constexpr uint8_t kFill = 0x3c;
    for (const auto& operand : call.inputs)
      RETURN_IF_ERROR(buffers.Add(BytesOf(operand), kFill));
    for (const auto& operand : call.outputs)
      RETURN_IF_ERROR(buffers.Add(BytesOf(operand), kFill));
    const size_t operands = buffers.addresses().size();
    if (prepared->workspace_bytes() > 0)
      RETURN_IF_ERROR(buffers.Add(prepared->workspace_bytes(), 0));
    ExternBuffers at;
    for (int i = 0; i < kMaxExternOperands; ++i)
      if (part.operand[i] >= 0)
        at.operand[i] = buffers.addresses()[part.operand[i]];
    if (prepared->workspace_bytes() > 0)
      at.workspace = buffers.addresses()[operands];
    return Time(*cuda_, repeats,
                [&](Stream stream) { return prepared->Run(at, stream); });
  }

  absl::StatusOr<std::vector<std::string>> Algorithms(const TimedCall& call,
                                                      int most) override {
    ASSIGN_OR_RETURN(ExternLibrary* const library, LibraryFor(call));
    ASSIGN_OR_RETURN(const ExternPart part, PartOf(call));
    return library->Algorithms(part.problem, most);
  }

 private:
  static constexpr int kWarmRuns = 3;
  // How many launches one run has. Runs of short kernels have many, about kRun of work,
  // so that starting a run and waiting for its end take little of the time.
  static constexpr int kLeastLaunches = 5;
  static constexpr int kMostLaunches = 20;
  static constexpr absl::Duration kRun = absl::Microseconds(400);

  using Put = absl::FunctionRef<absl::Status(Stream)>;

  // The median time of the work that `put` puts on a stream, in seconds.
  static absl::StatusOr<double> Time(Device& device, int repeats, Put put) {
    ASSIGN_OR_RETURN(const auto stream, device.MakeStream());
    RETURN_IF_ERROR(device.Synchronize(nullptr));  // the memory is filled
    double once = 0;
    for (int run = 0; run < kWarmRuns; ++run) {
      const SteadyTime start = SteadyNow();
      RETURN_IF_ERROR(put(stream->get()));
      RETURN_IF_ERROR(device.Synchronize(stream->get()));
      once = absl::ToDoubleSeconds(Since(start));
    }
    const int launches = static_cast<int>(
        std::clamp<double>(absl::ToDoubleSeconds(kRun) / std::max(once, 1e-9),
                           kLeastLaunches, kMostLaunches));
    const auto graph = Captured(device, launches, put, stream->get());
    const auto run_once = [&]() -> absl::Status {
      if (graph != nullptr) return graph->Launch(stream->get());
      for (int i = 0; i < launches; ++i) RETURN_IF_ERROR(put(stream->get()));
      return absl::OkStatus();
    };
    std::vector<double> seconds;
    for (int run = -kWarmRuns; run < repeats; ++run) {
      const SteadyTime start = SteadyNow();
      RETURN_IF_ERROR(run_once());
      RETURN_IF_ERROR(device.Synchronize(stream->get()));
      if (run >= 0)
        seconds.push_back(absl::ToDoubleSeconds(Since(start)) / launches);
    }
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2,
                     seconds.end());
    return seconds[seconds.size() / 2];
  }

  // The work captured as one launch, so that the time on the host is not measured: a
  // library call takes longer there than a kernel launch. Null if the device cannot
  // capture this work; then its launches are put on the stream one by one.
  static std::unique_ptr<CapturedGraph> Captured(Device& device, int launches,
                                                 Put put, Stream stream) {
    if (!device.BeginCapture(stream).ok()) return nullptr;
    absl::Status kept;
    for (int i = 0; i < launches && kept.ok(); ++i) kept = put(stream);
    absl::StatusOr<std::unique_ptr<CapturedGraph>> graph =
        device.EndCapture(stream);
    return kept.ok() && graph.ok() ? *std::move(graph) : nullptr;
  }

  absl::StatusOr<ExternLibrary*> LibraryFor(const TimedCall& call) {
    if (call.kind != TargetKind::kCuda) {
      return MakeError(
          ErrorReason::kUnsupportedOp,
          absl::StrCat(call.name,
                       ": CPU libraries offer no choice of algorithms"));
    }
    RETURN_IF_ERROR(DeviceFor(call.kind, call.target).status());
    if (cuda_externs_ == nullptr)
      cuda_externs_ = MakeCudaExterns(cuda_, folders_);
    return cuda_externs_.get();
  }

  // NO_DEVICE also if the device cannot run code for the target `name`.
  absl::StatusOr<Device*> DeviceFor(TargetKind kind, const std::string& name) {
    wire::Target target;
    Device* device = nullptr;
    if (kind == TargetKind::kCuda) {
      target.mutable_cuda()->set_arch(name);
      if (cuda_ == nullptr) {
        ASSIGN_OR_RETURN(cuda_, CudaDevice::Open(0, folders_));
      }
      device = cuda_.get();
    } else {
      target.mutable_cpu()->set_level(name);
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
  std::shared_ptr<ExternLibrary> cuda_externs_;
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
      std::fprintf(
          stderr,
          "kiln-worker: the host compiler was replaced since the first "
          "reply; exiting, the next worker will report the new one\n");
      return 3;
    }
    if (!WriteFrame(kSocketFd, reply.SerializeAsString()).ok()) return 0;
    TakeLowestPriority();  // only the hello, the first reply, was urgent
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::EnterJail(argc, argv);
  kiln::KeepFreedMemory();
  return kiln::Serve();
}
