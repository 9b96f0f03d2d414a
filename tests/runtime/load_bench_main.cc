// From artifact bytes to the results of the first call, against a later call,
// on a plan of the size of a small GPT-2 training step: 300 launches and 60
// matrix products of ten shapes. Prints milliseconds of each part.
//
//   bazel run //tests/runtime:load_bench
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "runtime/artifact_view.h"
#include "runtime/executor.h"
#include "runtime/open_device.h"

namespace kiln {
namespace {

constexpr int kLaunches = 300;
constexpr int kProducts = 60;
constexpr int64_t kRows = 128;

double Now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Of this thread: what the time would be on a machine with nothing else to do.
double CpuNow() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

void SetView(wire::BufferView& view, uint32_t buffer, int64_t rows,
             int64_t columns) {
  view.set_buffer(buffer);
  view.set_dtype(wire::DTYPE_FLOAT32);
  view.add_sizes()->set_value(rows);
  view.add_sizes()->set_value(columns);
  view.add_strides()->set_value(columns);
  view.add_strides()->set_value(1);
}

uint32_t AddArena(wire::LaunchPlan& plan, int64_t& offset, int64_t elements) {
  wire::PlanBuffer& buffer = *plan.add_buffers();
  buffer.set_kind(wire::PlanBuffer::KIND_ARENA);
  buffer.mutable_bytes()->set_value(4 * elements);
  buffer.mutable_offset()->set_value(offset);
  offset += (4 * elements + 63) / 64 * 64;
  return plan.buffers_size() - 1;
}

std::string SyntheticArtifact(const std::string& kernels_path) {
  wire::Artifact artifact;
  artifact.set_format_version(kArtifactFormatVersion);
  artifact.mutable_target()->mutable_cpu()->set_level("x86-64");
  wire::LaunchPlan& plan = *artifact.mutable_compiled()->mutable_plan();
  int64_t arena = 0;
  for (int i = 0; i < kProducts; ++i) {
    const int64_t k = 16 + 8 * (i % 10);
    const uint32_t a = AddArena(plan, arena, kRows * k);
    const uint32_t b = AddArena(plan, arena, k * 96);
    const uint32_t out = AddArena(plan, arena, kRows * 96);
    wire::ExternStep& call = *plan.add_steps()->mutable_extern_call();
    call.set_name("mm");
    SetView(*call.add_inputs(), a, kRows, k);
    SetView(*call.add_inputs(), b, k, 96);
    SetView(*call.add_outputs(), out, kRows, 96);
  }
  for (int i = 0; i < kLaunches; ++i) {
    wire::PlanKernel& kernel = *plan.add_kernels();
    kernel.set_symbol("test_add");
    kernel.set_label("add_" + std::to_string(i));
    wire::LaunchStep& launch = *plan.add_steps()->mutable_launch();
    launch.set_kernel(i);
    for (const uint32_t buffer :
         {3u * (i % kProducts), 3u * (i % kProducts) + 2u}) {
      launch.add_args()->mutable_buffer()->set_buffer(buffer);
    }
    launch.add_args()->mutable_scalar()->set_value(1000 + i % 7);
    launch.add_args()->mutable_scalar()->set_value(1);
    for (int axis = 0; axis < 3; ++axis) {
      launch.add_grid()->set_value(1);
      launch.add_block(1);
    }
  }
  plan.mutable_arena_bytes()->set_value(arena);
  std::ifstream file(kernels_path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  artifact.add_objects()->set_image(bytes.str());
  wire::SignedArtifact sealed;
  sealed.set_artifact(artifact.SerializeAsString());
  sealed.set_xxh3(Xxh3_64(sealed.artifact()));
  return sealed.SerializeAsString();
}

int Main(const std::string& kernels_path) {
  const std::string bytes = SyntheticArtifact(kernels_path);
  double mark = Now();
  double cpu_mark = CpuNow();
  const auto lap = [&](const char* what) {
    const double now = Now();
    std::printf("%-28s %8.3f ms, of the thread's own %8.3f\n", what, now - mark,
                CpuNow() - cpu_mark);
    mark = Now();
    cpu_mark = CpuNow();
    return now;
  };
  const auto device = OpenDevice({});
  // What a client does meanwhile: it asks the daemon for the artifact.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  lap("open device (once)");
  for (int round = 0; round < 3; ++round) {
    std::printf("round %d, %zu bytes\n", round, bytes.size());
    const double start = mark = Now();
    cpu_mark = CpuNow();
    const auto view = ArtifactView::ParseBytes(
        bytes, {{}, TrustPolicy::Unsigned::kAllow}, device->device->traits());
    lap("  parse and check");
    const auto loaded = LoadedArtifact::Load(*view, *device);
    lap("  load modules");
    const auto executor = Executor::Create(*loaded);
    lap("  bind");
    if (!executor.ok() || !(*executor)->Run({}, {}).ok()) return 1;
    const double first = lap("  first call");
    double later = 1e9;
    for (int i = 0; i < 10; ++i) {
      mark = Now();
      if (!(*executor)->Run({}, {}).ok()) return 1;
      later = std::min(later, Now() - mark);
    }
    std::printf("  later call (best of 10)    %8.3f ms\n", later);
    std::printf("  bytes to results, less that %7.3f ms\n",
                first - start - later);
  }
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  return kiln::Main(argc > 1 ? argv[1] : "tests/runtime/test_kernels.so");
}
