#ifndef KILN_RUNTIME_MEMORY_WALK_H_
#define KILN_RUNTIME_MEMORY_WALK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/base/status.h"
#include "runtime/bind_launches.h"
#include "runtime/call_frame.h"
#include "runtime/memory_events.h"
#include "runtime/run_options.h"

namespace kiln {

// The one that the options name, or the device's own.
inline Allocator& AllocatorOf(const RunOptions& options, Device& device) {
  return options.allocator != nullptr ? *options.allocator : device.allocator();
}

// Gives what a run allocated back when its last tensor goes.
struct RunMemoryDeleter {
  Allocator* allocator;            // null: the memory is another's by now
  std::shared_ptr<Device> device;  // keeps the device's own allocator alive
  int64_t bytes;
  Stream stream;
  void operator()(void* memory) const {
    if (allocator != nullptr) allocator->Free(memory, bytes, stream);
  }
};

// Goes through the memory events of a plan as the steps go by, in a frame whose
// sizes are known.
class MemoryWalk {
 public:
  MemoryWalk(const BoundPlan& plan, const RunOptions& options, CallFrame& frame)
      : plan_(plan),
        options_(options),
        frame_(frame),
        take_(plan.memory.takes.begin()),
        give_(plan.memory.gives.begin()),
        done_(plan.memory.inputs_done.begin()) {}

  // RESOURCE_EXHAUSTED  no memory
  absl::Status Before(int32_t step) {
    for (; take_ != plan_.memory.takes.end() && take_->step == step; ++take_) {
      RETURN_IF_ERROR(Take(take_->subject));
    }
    return absl::OkStatus();
  }

  void After(int32_t step) {
    for (; give_ != plan_.memory.gives.end() && give_->step == step; ++give_) {
      frame_.owners[give_->subject].reset();
    }
    InputsDone(step);
  }

  void InputsDone(int32_t step) {
    if (options_.inputs == nullptr) return;
    for (; done_ != plan_.memory.inputs_done.end() && done_->step == step;
         ++done_) {
      options_.inputs->Done(done_->subject);
    }
  }

 private:
  // Of an output, or of a temporary with memory of its own.
  absl::Status Take(int32_t buffer);
  std::string HolderOf(int32_t buffer) const;
  void* MakeResult(const WholeResult& result, int64_t bytes) const;

  using Event = std::vector<MemoryEvent>::const_iterator;
  const BoundPlan& plan_;
  const RunOptions& options_;
  CallFrame& frame_;
  Event take_, give_, done_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_MEMORY_WALK_H_
