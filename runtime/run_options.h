#ifndef KILN_RUNTIME_RUN_OPTIONS_H_
#define KILN_RUNTIME_RUN_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "proto/base/dtype.h"
#include "runtime/device.h"
#include "runtime/launch_hooks.h"
#include "runtime/trace.h"

namespace kiln {

// Learns what a run has no more use for. Called on the thread that runs.
class InputObserver {
 public:
  virtual ~InputObserver() = default;

  // No result views tensor input number `input`, and all work that reads it is
  // on the run's stream: who owns it alone may free it, so that what the run
  // allocates later takes its memory.
  virtual void Done(int32_t input) = 0;
};

// What a result is, before it is there.
struct ResultMeta {
  DType dtype = DType::kFloat32;
  absl::Span<const int64_t> sizes;
  absl::Span<const int64_t> strides;  // in elements
};

// Makes results that are the caller's own from the start, such as a framework's
// tensors. Called on the thread that runs.
class ResultMaker {
 public:
  virtual ~ResultMaker() = default;

  // The first element of tensor result number `index`, aligned as an Allocator's
  // memory, with room for what `like` spans. The caller keeps it while work of
  // the run is on its stream, also when the run fails. Null: the run allocates.
  // Not asked for results that are empty or share memory with others, nor for
  // those whose sizes a step finds out.
  virtual void* Make(int32_t index, const ResultMeta& like) = 0;
};

// What nodes of the request's graph are to people.
class NodeWords {
 public:
  virtual ~NodeWords() = default;
  // "add_3: aten.add.Tensor, at model.py:12 in forward".
  virtual std::string Of(uint32_t node) const = 0;
};

struct RunOptions {
  // For the graph's random operators: equal seeds give equal results.
  uint64_t seed = 0;
  // 8 bytes on the device that hold the seed when the work runs, in place of the
  // one above: for work that is captured. Null: the run sees to them.
  void* seed_slot = nullptr;
  // The work is put here, ordered after what is there already.
  Stream stream = nullptr;
  // Where outputs live, and the arena while the call's work runs; null: the
  // device's own. Must outlive the outputs.
  Allocator* allocator = nullptr;
  // May be null.
  InputObserver* inputs = nullptr;
  // Null: all results are allocated.
  ResultMaker* results = nullptr;
  // Null: nobody watches its launches.
  LaunchHooks* launches = nullptr;
  // When not null every step is timed, which waits for the device after each. A
  // device graph's replay is one.
  Trace* trace = nullptr;
  // For a trace: whose work its steps do. Null: it does not say.
  const NodeWords* nodes = nullptr;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_RUN_OPTIONS_H_
