// What a replay costs a program in C++ or C beside a bare launch of the same graph:
// microseconds of processor time and allocations a call, on the caller's default
// stream and on another.
//
//   replay_bench                  on the null device: ./kiln bench replays
//   replay_bench --device=cuda    on a GPU: ./kiln bench graphs calls
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/session_graphs.h"
#include "google/protobuf/text_format.h"
#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "runtime/device_target.h"
#include "runtime/extern_kernels/null_externs.h"
#include "runtime/input_view.h"
#include "runtime/null_device.h"
#include "runtime/open_device.h"
#include "tests/runtime/test_artifact.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace kiln {
namespace {

constexpr char kMatrix[] =
    R"(dtype: DTYPE_FLOAT32 sizes { value: 4 } sizes { value: 4 }
       strides { value: 4 } strides { value: 1 })";
constexpr int kMatrixBytes = 64;
// Few enough that a GPU's queue takes them all, which is empty before.
constexpr int kCalls = 100;
constexpr int kTurns = 500;

template <typename T>
T OrAbort(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}
void OrAbort(const absl::Status& status) {
  if (!status.ok()) OrAbort<int>(status);
}

// y = the first of `inputs` matrices.
std::string Plan(int inputs) {
  std::string plan;
  for (int i = 0; i < inputs; ++i) {
    absl::StrAppend(&plan, "inputs { tensor { ", kMatrix, " } } ");
  }
  for (int i = 0; i < inputs; ++i) {
    absl::StrAppend(&plan, "buffers { kind: KIND_INPUT index: ", i,
                    " name: \"x\" bytes { value: 64 } } ");
  }
  return absl::StrCat(
      plan, "buffers { kind: KIND_OUTPUT name: \"y\" bytes { value: 64 } } ",
      "steps { copy { from { buffer: 0 ", kMatrix, " } to { buffer: ", inputs,
      " ", kMatrix, " } } } outputs { view { buffer: ", inputs, " ", kMatrix,
      " } }");
}

double CpuMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

// The least of some turns of `call`, in microseconds.
template <typename Call>
double Best(Device& device, Stream stream, const Call& call) {
  double best = std::numeric_limits<double>::max();
  for (int turn = 0; turn < kTurns; ++turn) {
    const double begin = CpuMicroseconds();
    for (int i = 0; i < kCalls; ++i) call();
    best = std::min(best, (CpuMicroseconds() - begin) / kCalls);
    OrAbort(device.Synchronize(stream));
  }
  return best;
}

// A launch of what the plan's graph does.
double BareLaunch(Device& device, void* from, void* to, Stream stream) {
  const auto own = OrAbort(device.MakeStream());
  const int64_t size = kMatrixBytes, stride = 1;
  const StridedView source = {from, 1, {&size, 1}, {&stride, 1}};
  const StridedView target = {to, 1, {&size, 1}, {&stride, 1}};
  OrAbort(device.BeginCapture(own->get()));
  OrAbort(device.Copy(source, target, own->get()));
  const auto graph = OrAbort(device.EndCapture(own->get()));
  return Best(device, stream, [&] { OrAbort(graph->Launch(stream)); });
}

std::shared_ptr<const Executor> LoadPlan(const OpenedDevice& on, int inputs) {
  wire::Artifact artifact;
  artifact.set_format_version(kArtifactFormatVersion);
  if (on.device->traits().kind == DeviceKind::kCuda) {
    *artifact.mutable_target() = TargetOf(on.device->traits());
  } else {
    artifact.mutable_target()->mutable_cpu()->set_level("x86-64");
  }
  if (!google::protobuf::TextFormat::ParseFromString(
          Plan(inputs), artifact.mutable_compiled()->mutable_plan())) {
    std::abort();
  }
  return OrAbort(Load(Seal(artifact), on));
}

// Of a graph of `inputs` matrices, of which all but the first `copied` stay where
// they are.
void Measure(const OpenedDevice& on, int inputs, int copied, Stream stream) {
  Device& device = *on.device;
  auto graphs = std::make_unique<SessionGraphs>(on, GraphOptions());
  const auto executor = LoadPlan(on, inputs);
  std::vector<int> fixed;
  for (int i = copied; i < inputs; ++i) fixed.push_back(i);
  std::vector<void*> memory;
  const int64_t sizes[] = {4, 4}, strides[] = {4, 1};
  std::vector<InputView> views;
  for (int i = 0; i <= inputs; ++i) {  // the last for the bare launch
    memory.push_back(
        OrAbort(device.segments().Allocate(kMatrixBytes, nullptr)));
    if (i == inputs) break;
    InputView view = {};
    view.is_tensor = true;
    view.dtype = DType::kFloat32;
    view.rank = 2;
    view.data = memory.back();
    view.sizes = sizes;
    view.strides = strides;
    views.push_back(view);
  }
  const auto call = [&] {
    graphs->MarkStepBegin();
    OrAbort(
        graphs->Run(executor, views, [&] { return fixed; }, {.stream = stream})
            .status());
  };
  for (int i = 0; i < 5; ++i) call();
  int64_t replays = 0;
  graphs->Look([&](const graph_tree::GraphTree& tree) {
    replays = tree.counters().replays;
  });
  if (replays != 3) std::abort();
  const int64_t before = allocations;
  const double each = Best(device, stream, call);
  const double allocated =
      static_cast<double>(allocations - before) / (kTurns * kCalls);
  const double bare = BareLaunch(device, memory[0], memory.back(), stream);
  std::printf("| %d | %d | %s | %.2f | %.2f | %.2f | %.1f |\n", inputs, copied,
              stream == nullptr ? "default" : "another", each, bare,
              each - bare, allocated);
  std::fflush(stdout);
  graphs.reset();
  for (void* matrix : memory) {
    device.segments().Free(matrix, kMatrixBytes, nullptr);
  }
}

OpenedDevice OpenCuda() {
  DeviceConfig config;
  config.kind = DeviceKind::kCuda;
  return OrAbort(OpenDevice(config));
}

void Run(const OpenedDevice& on) {
  const auto stream = OrAbort(on.device->MakeStream());
  std::printf(
      "\nreplays from C++, %s\n\n| inputs | copied | stream | us a call | bare "
      "launch | own part | allocations |\n|---|---|---|---|---|---|---|\n",
      on.device->traits().name.c_str());
  for (const Stream one : {Stream{}, stream->get()}) {
    for (const int inputs : {1, 20, 200}) {
      Measure(on, inputs, 0, one);
      Measure(on, inputs, 1, one);
    }
    Measure(on, 20, 20, one);
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  const bool cuda = argc == 2 && std::string(argv[1]) == "--device=cuda";
  if (argc > 1 && !cuda) {
    std::fprintf(stderr, "usage: replay_bench [--device=cuda]\n");
    return 2;
  }
  kiln::Run(cuda ? kiln::OpenCuda()
                 : kiln::OpenedDevice{kiln::MakeNullDevice(),
                                      kiln::MakeNullExterns()});
}
