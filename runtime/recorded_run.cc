#include "runtime/recorded_run.h"

#include <utility>
#include <variant>

#include "proto/base/status.h"
#include "runtime/input_view.h"

namespace kiln {
namespace {

// Keeps the pool's allocator while a result is there.
struct KeptResult {
  std::shared_ptr<CachingAllocator> memory;
  std::shared_ptr<void> result;  // goes first
};

}  // namespace

RecordedRun::RecordedRun(std::shared_ptr<const Executor> executor,
                         std::vector<InputValue> inputs,
                         std::shared_ptr<CachingAllocator> memory)
    : executor_(std::move(executor)),
      inputs_(std::move(inputs)),
      memory_(std::move(memory)),
      pool_(memory_->MakePool()) {}

RecordedRun::~RecordedRun() {
  if (replayed_) {
    IgnoreBecause(executor_->artifact().device().Synchronize(last_),
                  "what failed there was or will be told by another wait");
  }
  graph_.reset();
  outputs_.clear();
  run_.reset();
  memory_->RetirePool(pool_);
}

absl::StatusOr<std::unique_ptr<RecordedRun>> RecordedRun::Record(
    std::shared_ptr<const Executor> executor, std::vector<InputValue> inputs,
    std::shared_ptr<CachingAllocator> memory) {
  std::unique_ptr<RecordedRun> run(new RecordedRun(
      std::move(executor), std::move(inputs), std::move(memory)));
  Device& device = run->executor_->artifact().device();
  ASSIGN_OR_RETURN(run->stream_, device.MakeStream());
  {
    const PoolRouting routing(*run->memory_, run->pool_);
    ASSIGN_OR_RETURN(run->run_,
                     PlacedRun::Place(run->executor_, ViewsOf(run->inputs_),
                                      {.stream = run->stream_->get(),
                                       .allocator = run->memory_.get()}));
  }
  // What placing put on the stream is done before a replay on another one.
  RETURN_IF_ERROR(device.Synchronize(run->stream_->get()));
  RETURN_IF_ERROR(run->Capture());
  run->outputs_ = run->run_->TakeOutputs();
  for (OutputValue& output : run->outputs_) {
    auto* const tensor = std::get_if<Tensor>(&output);
    if (tensor == nullptr) continue;
    tensor->owner = std::make_shared<KeptResult>(
        KeptResult{run->memory_, std::move(tensor->owner)});
  }
  return run;
}

absl::Status RecordedRun::Capture() {
  Device& device = executor_->artifact().device();
  RETURN_IF_ERROR(device.BeginCapture(stream_->get()));
  const absl::Status put = run_->Put();
  absl::StatusOr<std::unique_ptr<CapturedGraph>> graph =
      device.EndCapture(stream_->get());
  RETURN_IF_ERROR(put);
  RETURN_IF_ERROR(graph.status());
  graph_ = *std::move(graph);
  return absl::OkStatus();
}

absl::Status RecordedRun::Replay(Stream stream, uint64_t seed) {
  Device& device = executor_->artifact().device();
  ASSIGN_OR_RETURN(const CurrentDevice current, device.MakeCurrent());
  if (void* const slot = run_->seed_slot()) {
    RETURN_IF_ERROR(device.Fill(slot, sizeof(seed), 1, seed, stream));
  }
  replayed_ = true;
  last_ = stream;
  return graph_->Launch(stream);
}

}  // namespace kiln
