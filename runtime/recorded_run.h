#ifndef KILN_RUNTIME_RECORDED_RUN_H_
#define KILN_RUNTIME_RECORDED_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/caching_allocator.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/placed_run.h"
#include "runtime/tensor.h"

namespace kiln {

// A run that was captured once and is replayed as one launch: for a program
// whose many short kernels would wait for the host. Inputs and results stay
// where they are: who wants others writes into the inputs, and reads the results
// before the next replay overwrites them. One thread at a time.
class RecordedRun {
 public:
  // Captures a run of `executor` on `inputs`, and runs nothing. Its memory is a
  // private pool of `memory`, which is that of the executor's device.
  //
  // UNIMPLEMENTED       the device captures nothing
  // Errors: those of PlacedRun::Place and Put; FAILED_PRECONDITION when a
  // library broke the capture
  static absl::StatusOr<std::unique_ptr<RecordedRun>> Record(
      std::shared_ptr<const Executor> executor, std::vector<InputValue> inputs,
      std::shared_ptr<CachingAllocator> memory);

  // Waits for the last replay. Memory of results goes back when they are gone.
  ~RecordedRun();
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;

  // Puts the work on `stream`, ordered after what is there. Replays on several
  // streams are the caller's to order.
  absl::Status Replay(Stream stream, uint64_t seed = 0);

  // In the graph's order; written by each replay. They may outlive this.
  const std::vector<OutputValue>& outputs() const { return outputs_; }
  // Kernels, copies and fills that it consists of.
  int64_t size() const { return graph_->size(); }

 private:
  RecordedRun(std::shared_ptr<const Executor> executor,
              std::vector<InputValue> inputs,
              std::shared_ptr<CachingAllocator> memory);

  absl::Status Capture();

  const std::shared_ptr<const Executor> executor_;
  const std::vector<InputValue> inputs_;
  const std::shared_ptr<CachingAllocator> memory_;
  const PoolId pool_;
  std::unique_ptr<OwnedStream> stream_;  // of the capture
  std::unique_ptr<PlacedRun> run_;
  std::unique_ptr<CapturedGraph> graph_;
  bool replayed_ = false;
  Stream last_ = nullptr;  // that the last replay was put on
  std::vector<OutputValue> outputs_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_RECORDED_RUN_H_
