// What a replay costs a program in C++ or C beside the launch itself, on the null
// device, whose launch of a captured copy is next to nothing: microseconds of
// processor time and allocations a call.
//
//   ./kiln bench replays
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
#include "runtime/extern_kernels/null_externs.h"
#include "runtime/input_view.h"
#include "runtime/null_device.h"
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
constexpr int kCalls = 2000;
constexpr int kTurns = 25;

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

// Of a graph of `inputs` matrices, of which all but the first `copied` stay where
// they are.
void Measure(int inputs, int copied) {
  auto graphs = std::make_unique<SessionGraphs>(
      OpenedDevice{MakeNullDevice(), MakeNullExterns()}, GraphOptions());
  auto executor = Load(Seal(MakeTestArtifact(Plan(inputs))),
                       {MakeNullDevice(), MakeNullExterns()});
  if (!executor.ok()) std::abort();
  std::vector<int> fixed;
  for (int i = copied; i < inputs; ++i) fixed.push_back(i);
  std::vector<std::vector<float>> memory(inputs, std::vector<float>(16));
  const int64_t sizes[] = {4, 4}, strides[] = {4, 1};
  std::vector<InputView> views;
  for (std::vector<float>& matrix : memory) {
    InputView view = {};
    view.is_tensor = true;
    view.dtype = DType::kFloat32;
    view.rank = 2;
    view.data = matrix.data();
    view.sizes = sizes;
    view.strides = strides;
    views.push_back(view);
  }
  const auto call = [&] {
    graphs->MarkStepBegin();
    if (!graphs->Run(*executor, views, [&] { return fixed; }, {}).ok())
      std::abort();
  };
  for (int i = 0; i < 5; ++i) call();
  int64_t replays = 0;
  graphs->Look([&](const graph_tree::GraphTree& tree) {
    replays = tree.counters().replays;
  });
  if (replays != 3) std::abort();
  double best = std::numeric_limits<double>::max();
  const int64_t before = allocations;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double begin = CpuMicroseconds();
    for (int i = 0; i < kCalls; ++i) call();
    best = std::min(best, (CpuMicroseconds() - begin) / kCalls);
  }
  const double each =
      static_cast<double>(allocations - before) / (kTurns * kCalls);
  std::printf("| %d | %d | %.2f | %.1f |\n", inputs, copied, best, each);
}

}  // namespace
}  // namespace kiln

int main() {
  std::printf(
      "| inputs | copied | us a call | allocations |\n|---|---|---|---|\n");
  for (const int inputs : {1, 20, 200}) {
    kiln::Measure(inputs, 0);
    kiln::Measure(inputs, 1);
  }
  kiln::Measure(20, 20);
}
