// Streams, captures and graphs of the emulated driver: what a captured stream is
// given is kept in order, and done anew by each launch of the graph.
#include "tests/support/cuda_emulator/capture.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kiln_emulator {
namespace {

using Graph = std::vector<Work>;

struct Stream {
  std::mutex mu;
  std::unique_ptr<Graph> capture;  // null: none goes on
};

constexpr int kInvalidValue = 1, kIllegalState = 401;

std::atomic<int64_t> g_put{0};       // pieces of work that were done at once
std::atomic<int64_t> g_launched{0};  // graphs

}  // namespace

int Put(void* stream, Work work) {
  // The legacy stream and the per-thread one have small numbers.
  constexpr uintptr_t kLastSpecial = 2;
  if (reinterpret_cast<uintptr_t>(stream) > kLastSpecial) {
    Stream& own = *static_cast<Stream*>(stream);
    const std::lock_guard<std::mutex> lock(own.mu);
    if (own.capture != nullptr) {
      own.capture->push_back(std::move(work));
      return 0;
    }
  }
  ++g_put;
  return work();
}

bool IsCapturing(void* stream) {
  constexpr uintptr_t kLastSpecial = 2;
  if (reinterpret_cast<uintptr_t>(stream) <= kLastSpecial) return false;
  Stream& own = *static_cast<Stream*>(stream);
  const std::lock_guard<std::mutex> lock(own.mu);
  return own.capture != nullptr;
}

}  // namespace kiln_emulator

using kiln_emulator::Graph;
using kiln_emulator::IsCapturing;
using kiln_emulator::kIllegalState;
using kiln_emulator::kInvalidValue;
using kiln_emulator::Stream;
using kiln_emulator::Work;

extern "C" {

int cuStreamCreate(void** stream, unsigned) {
  *stream = new Stream;
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = IsCapturing(stream) ? 1 : 0;
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuStreamBeginCapture_v2(void* stream, int) {
  if (stream == nullptr) return kInvalidValue;
  Stream& own = *static_cast<Stream*>(stream);
  const std::lock_guard<std::mutex> lock(own.mu);
  if (own.capture != nullptr) return kIllegalState;
  own.capture = std::make_unique<Graph>();
  return 0;
}
int cuStreamEndCapture(void* stream, void** graph) {
  Stream& own = *static_cast<Stream*>(stream);
  const std::lock_guard<std::mutex> lock(own.mu);
  if (own.capture == nullptr) return kIllegalState;
  *graph = own.capture.release();
  return 0;
}
int cuGraphGetNodes(void* graph, void*, size_t* count) {
  *count = static_cast<Graph*>(graph)->size();
  return 0;
}
int cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
  *made = new Graph(*static_cast<Graph*>(graph));
  return 0;
}
int cuGraphLaunch(void* graph, void* stream) {
  if (IsCapturing(stream)) return kIllegalState;
  ++kiln_emulator::g_launched;
  for (const Work& work : *static_cast<Graph*>(graph)) {
    if (const int code = work()) return code;
  }
  return 0;
}
int cuGraphExecDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}
int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}

// For tests: the pieces of work that streams were given and did at once, and the
// graphs that were launched, both since the program began.
void kiln_emulator_counts(int64_t* put, int64_t* launched) {
  *put = kiln_emulator::g_put;
  *launched = kiln_emulator::g_launched;
}

}  // extern "C"
