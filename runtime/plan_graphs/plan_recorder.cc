#include "runtime/plan_graphs/plan_recorder.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/input_view.h"
#include "runtime/placed_run.h"
#include "runtime/plan_graphs/plan_recording.h"

namespace kiln {
namespace {

using graph_tree::InputUse;

const PlanBody& BodyOf(const graph_tree::Function& function) {
  return *static_cast<const PlanBody*>(function.body);
}

// "plan 3", for people who ask who holds memory.
std::string HolderOf(const PlanBody& body) {
  return absl::StrCat("plan ", body.number);
}

// Why there is no capture of a call. One whose inputs the caller keeps can still
// run plainly.
absl::Status CannotCapture(const PlanCall& caller, const absl::Status& why) {
  if (why.code() != absl::StatusCode::kFailedPrecondition ||
      caller.views.empty()) {
    return why;
  }
  return absl::UnimplementedError(why.message());
}

PlanCall& CallerOf(graph_tree::Call& call) {
  return *static_cast<PlanCall*>(call.caller);
}

// Drops inputs as a run is done with them.
class Dropper final : public InputObserver {
 public:
  explicit Dropper(std::vector<InputValue>& inputs) : inputs_(inputs) {}
  void Done(int32_t input) override {
    std::get<Tensor>(inputs_[input]).owner.reset();
  }

 private:
  std::vector<InputValue>& inputs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlanRecorder>> PlanRecorder::Make(
    std::shared_ptr<Device> device, GraphMemory& memory) {
  std::unique_ptr<PlanRecorder> recorder(
      new PlanRecorder(std::move(device), memory));
  ASSIGN_OR_RETURN(recorder->stream_, recorder->device_->MakeStream());
  ASSIGN_OR_RETURN(recorder->marker_, recorder->device_->MakeMarker());
  ASSIGN_OR_RETURN(recorder->order_, CallOrder::Make(*recorder->device_,
                                                     recorder->stream_->get()));
  return recorder;
}

absl::Status PlanRecorder::Order(Stream first, Stream second) {
  RETURN_IF_ERROR(marker_->Record(first));
  return marker_->Wait(second);
}

absl::Status PlanRecorder::RunPlainly(const graph_tree::Function& function,
                                      graph_tree::Call& call) {
  PlanCall& caller = CallerOf(call);
  TakeViews(caller);
  ASSIGN_OR_RETURN(caller.results, BodyOf(function).executor->Run(
                                       caller.inputs, {.seed = caller.seed,
                                                       .stream = caller.stream,
                                                       .trace = caller.trace,
                                                       .nodes = caller.nodes}));
  caller.inputs.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<graph_tree::Output>> PlanRecorder::WarmUp(
    const graph_tree::Function& function, graph_tree::Call& call) {
  PlanCall& caller = CallerOf(call);
  RETURN_IF_ERROR(Order(caller.stream, stream_->get()));
  absl::StatusOr<std::vector<OutputValue>> results;
  {
    const PoolRouting routing(memory_.allocator(), memory_.pool());
    const std::string plan = HolderOf(BodyOf(function));
    const MemoryHolder holder(plan);
    Dropper dropper(caller.inputs);
    RunOptions options;
    options.seed = caller.seed;
    options.stream = stream_->get();
    options.allocator = &memory_.allocator();
    options.inputs = &dropper;
    options.trace = caller.trace;
    options.nodes = caller.nodes;
    results = BodyOf(function).executor->Run(caller.inputs, options);
  }
  // Also where the run failed: it may have put some of its work.
  RETURN_IF_ERROR(Order(stream_->get(), caller.stream));
  ASSIGN_OR_RETURN(caller.results, std::move(results));
  memory_.Adopt(absl::MakeSpan(caller.results));
  caller.inputs.clear();
  return OutputsOf(caller.results, memory_);
}

absl::StatusOr<Tensor> PlanRecorder::SlotFor(const Tensor& tensor) {
  Tensor copy = tensor;
  copy.owner.reset();
  const int64_t bytes = SpannedBytes(WithoutRepeats(tensor));
  if (bytes > 0) {
    ASSIGN_OR_RETURN(copy.data,
                     memory_.allocator().Allocate(bytes, stream_->get()));
    copy.owner = memory_.NewStorage(copy.data, GraphMemory::Block::kFreed);
  }
  copy.storage = copy.data;
  return copy;
}

absl::StatusOr<InputCopies> PlanRecorder::CopyInputs(
    const PlanBody& body, std::vector<InputValue>& inputs,
    absl::Span<const InputUse> uses) {
  const std::vector<InputValue> given = inputs;  // until the copies are put
  InputCopies copies(device_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (uses[i] != InputUse::kCopied) continue;
    const std::string name =
        absl::StrCat(HolderOf(body), ": copy of input ", i);
    const MemoryHolder holder(name);
    Tensor& tensor = std::get<Tensor>(inputs[i]);
    ASSIGN_OR_RETURN(tensor, SlotFor(tensor));
    // The copy is the start of its storage; a plan that reads the offset is for
    // the caller's.
    if (!body.reads_offset[i]) tensor.storage_offset = 0;
    copies.Add(static_cast<int>(i), WithoutRepeats(tensor));
  }
  RETURN_IF_ERROR(
      copies.Put([&](int input) { return std::get<Tensor>(given[input]).data; },
                 stream_->get()));
  return copies;
}

absl::StatusOr<std::unique_ptr<PlacedRun>> PlanRecorder::Place(
    const PlanBody& body, uint64_t seed, std::vector<InputValue> inputs) {
  const std::string plan = HolderOf(body);
  const MemoryHolder holder(plan);
  Dropper dropper(inputs);
  RunOptions options;
  options.seed = seed;
  options.stream = stream_->get();
  options.allocator = &memory_.allocator();
  options.inputs = &dropper;
  return PlacedRun::Place(body.executor, ViewsOf(inputs), options);
}

absl::StatusOr<std::unique_ptr<CapturedGraph>> PlanRecorder::Capture(
    PlacedRun& run) {
  RETURN_IF_ERROR(device_->BeginCapture(stream_->get()));
  const absl::Status put = run.Put();
  absl::StatusOr<std::unique_ptr<CapturedGraph>> graph =
      device_->EndCapture(stream_->get());
  RETURN_IF_ERROR(put);
  return graph;
}

absl::StatusOr<std::unique_ptr<graph_tree::Recording>> PlanRecorder::Record(
    const graph_tree::Function& function, graph_tree::Call& call,
    absl::Span<const InputUse> uses) {
  PlanCall& caller = CallerOf(call);
  const PlanBody& body = BodyOf(function);
  std::vector<InputValue> inputs = caller.inputs;
  RETURN_IF_ERROR(Order(caller.stream, stream_->get()));
  absl::StatusOr<InputCopies> copies;
  absl::StatusOr<std::unique_ptr<PlacedRun>> run;
  {
    const PoolRouting routing(memory_.allocator(), memory_.pool());
    copies = CopyInputs(body, inputs, uses);
    if (copies.ok()) {
      caller.inputs.clear();
      run = Place(body, caller.seed, std::move(inputs));
    }
  }
  // Copies and what placing put there come before the first launch.
  RETURN_IF_ERROR(Order(stream_->get(), caller.stream));
  RETURN_IF_ERROR(copies.status());
  RETURN_IF_ERROR(run.status());
  std::vector<OutputValue> results = (*run)->TakeOutputs();
  memory_.Adopt(absl::MakeSpan(results));
  absl::StatusOr<std::unique_ptr<CapturedGraph>> graph = Capture(**run);
  if (!graph.ok()) return CannotCapture(caller, graph.status());
  return std::make_unique<PlanRecording>(
      device_, memory_, *order_, *std::move(run), *std::move(graph),
      *std::move(copies), std::move(results));
}

void PlanRecorder::TakeViews(PlanCall& call) const {
  if (call.inputs.size() == call.size()) return;
  call.inputs.reserve(call.views.size());
  for (const InputView& view : call.views) {
    if (!view.is_tensor) {
      call.inputs.emplace_back(view.number);
      continue;
    }
    if (view.tensor != nullptr) {
      call.inputs.emplace_back(*view.tensor);
      continue;
    }
    Tensor tensor;
    tensor.data = view.data;
    tensor.dtype = view.dtype;
    tensor.sizes.assign(view.sizes, view.sizes + view.rank);
    tensor.strides.assign(view.strides, view.strides + view.rank);
    tensor.storage_offset = view.number;
    tensor.device = device_->traits().kind;
    tensor.device_ordinal = device_->traits().ordinal;
    tensor.owner = memory_.OwnerAt(view.data);
    tensor.storage = view.data;
    call.inputs.emplace_back(std::move(tensor));
  }
}

absl::Status PlanRecorder::FindStorages(graph_tree::Call& call) {
  PlanCall& caller = CallerOf(call);
  TakeViews(caller);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto* const tensor = std::get_if<Tensor>(&caller.inputs[i]);
    if (tensor == nullptr) continue;
    call.inputs[i].storage = memory_.StorageOf(*tensor);
    call.inputs[i].storage_address = tensor->storage;
  }
  return absl::OkStatus();
}

bool PlanRecorder::OutlivesInputs(const graph_tree::Call& call,
                                  graph_tree::Storage storage,
                                  graph_tree::Tensor cached) const {
  const PlanCall& caller = *static_cast<const PlanCall*>(call.caller);
  int64_t dropped = cached == nullptr ? 0 : 1;
  for (const InputValue& input : caller.inputs) {
    const auto* const tensor = std::get_if<Tensor>(&input);
    if (tensor != nullptr && memory_.StorageOf(*tensor) == storage) ++dropped;
  }
  return GraphMemory::UsesOf(storage) > dropped;
}

void PlanRecorder::DropInput(graph_tree::Call& call, int input) {
  PlanCall& caller = CallerOf(call);
  if (caller.inputs.empty()) return;  // the caller keeps what he gave
  std::get<Tensor>(caller.inputs[input]).owner.reset();
}

}  // namespace kiln
