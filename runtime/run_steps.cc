#include "runtime/run_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/step_launch.h"

namespace kiln {
namespace {

// Frees an output when its last tensor goes.
struct OutputDeleter {
  Allocator* allocator;
  std::shared_ptr<Device> device;  // keeps the device's own allocator alive
  int64_t bytes;
  Stream stream;
  void operator()(void* memory) const {
    allocator->Free(memory, bytes, stream);
  }
};

// Sizes and strides of a view of a plan, worked out. No allocation up to six
// dimensions.
struct KnownView {
  absl::InlinedVector<int64_t, 6> sizes;
  absl::InlinedVector<int64_t, 6> strides;
  StridedView view;
};

void WorkOut(const PlanView& from, const CallFrame& frame, KnownView& out) {
  for (const ExprId id : from.sizes) out.sizes.push_back(frame.values[id]);
  for (const ExprId id : from.strides) out.strides.push_back(frame.values[id]);
  out.view.element_bytes = SizeInBytes(from.dtype);
  out.view.data = frame.bases[from.buffer] +
                  frame.values[from.offset] * out.view.element_bytes;
  out.view.sizes = out.sizes;
  out.view.strides = out.strides;
}

bool IsEmpty(const StridedView& view) {
  return std::find(view.sizes.begin(), view.sizes.end(), 0) != view.sizes.end();
}

// Elements from the first to the last, of a view that has some.
int64_t SpannedElements(const StridedView& view) {
  int64_t last = 0;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    last += (view.sizes[i] - 1) * view.strides[i];
  }
  return last + 1;
}

// Whether the elements lie side by side, in any order of dimensions.
bool IsDense(const StridedView& view, int64_t elements) {
  return SpannedElements(view) == elements;
}

// Runs one step of a call.
class StepRunner {
 public:
  StepRunner(const BoundPlan& plan, const RunOptions& options, CallFrame& frame,
             const LoadedArtifact& artifact)
      : plan_(plan), options_(options), frame_(frame), artifact_(artifact) {}

  absl::Status operator()(const BoundLaunch& launch) {
    KernelLaunch out;
    for (int i = 0; i < 3; ++i) {
      out.grid[i] = frame_.values[launch.grid[i]];
      if (out.grid[i] <= 0) return absl::OkStatus();
      out.block[i] = launch.block[i];
    }
    out.grid[0] = std::min(out.grid[0], launch.most_blocks);
    SetPointers(launch);
    for (size_t i = 0; i < launch.scalars.size(); ++i) {
      const ExprId id = launch.scalars[i];
      frame_.scalars[i] = id == BoundLaunch::kSeed
                              ? static_cast<int64_t>(options_.seed)
                              : frame_.values[id];
    }
    out.kernel = launch.kernel;
    out.buffers =
        absl::MakeConstSpan(frame_.pointers.data(), launch.pointers.size());
    out.scalars =
        absl::MakeConstSpan(frame_.scalars.data(), launch.scalars.size());
    out.order = launch.order;
    out.shared_bytes = launch.shared_bytes;
    out.cluster = launch.cluster;
    out.programmatic_dependent_launch = launch.programmatic_dependent_launch;
    if (options_.launches != nullptr) return LaunchWatched(launch.step, out);
    return device().Launch(out, options_.stream);
  }

  absl::Status operator()(const BoundExtern& call) {
    return call.site->Run(frame_.values, frame_.bases, options_.stream,
                          &library_);
  }

  absl::Status operator()(const BoundCopy& step) {
    KnownView from;
    KnownView to;
    WorkOut(step.copy->from, frame_, from);
    WorkOut(step.copy->to, frame_, to);
    if (from.sizes != to.sizes) {
      return MakeError(ErrorReason::kArtifactCorrupt,
                       "launch plan: R6: a copy between unequal sizes");
    }
    if (IsEmpty(from.view)) return absl::OkStatus();
    return device().Copy(from.view, to.view, options_.stream);
  }

  absl::Status operator()(const BoundFill& step) {
    KnownView to;
    WorkOut(step.fill->to, frame_, to);
    if (IsEmpty(to.view)) return absl::OkStatus();
    int64_t elements = 1;
    for (const int64_t size : to.sizes) elements *= size;
    if (!IsDense(to.view, elements)) {
      return MakeError(ErrorReason::kArtifactCorrupt,
                       "launch plan: R6: a fill of a view with gaps");
    }
    return device().Fill(to.view.data, to.view.element_bytes, elements,
                         step.fill->bits, options_.stream);
  }

  absl::Status operator()(const BoundAssert& step) {
    if (frame_.values[step.assertion->condition] != 0) return absl::OkStatus();
    return MakeError(ErrorReason::kGuardFailed,
                     absl::StrCat("assertion: ", step.assertion->message));
  }

  absl::Status operator()(const BoundBind& step) {
    frame_.symbols[step.symbol] = frame_.values[step.value];
    EvaluateWave(plan_, step.wave, frame_);
    return PlaceWave(plan_, step.wave, options_, frame_, artifact_);
  }

  // Who computed the last library call.
  absl::string_view library() const { return library_; }

 private:
  Device& device() const { return artifact_.device(); }

  absl::Status LaunchWatched(int32_t step, const KernelLaunch& launch) {
    const StepLaunch told(artifact_, step, launch, options_.stream,
                          frame_.symbols);
    options_.launches->Enter(told);
    const absl::Status status = device().Launch(launch, options_.stream);
    options_.launches->Exit(told);
    return status;
  }

  // Of hundreds of pointers at times.
  void SetPointers(const BoundLaunch& launch) {
    void** out = frame_.pointers.data();
    char* const* const bases = frame_.bases.data();
    const int64_t* const values = frame_.values.data();
    for (const BoundPointer& pointer : launch.pointers) {
      *out++ = bases[pointer.buffer] + values[pointer.offset_bytes];
    }
  }

  absl::string_view library_;
  const BoundPlan& plan_;
  const RunOptions& options_;
  CallFrame& frame_;
  const LoadedArtifact& artifact_;
};

struct StepName {
  absl::string_view name;
  absl::string_view category;
};

StepName NameOf(const BoundStep& step) {
  if (const auto* launch = std::get_if<BoundLaunch>(&step)) {
    return {launch->label, "kernel"};
  }
  if (const auto* call = std::get_if<BoundExtern>(&step)) {
    return {call->site->name(), "extern"};
  }
  if (std::holds_alternative<BoundCopy>(step)) return {"copy", "copy"};
  if (std::holds_alternative<BoundFill>(step)) return {"fill", "fill"};
  return {"symbols", "host"};
}

// A traced step is waited for: its time is its own, not the launch's.
absl::Status RunTraced(const BoundStep& step, StepRunner& runner,
                       Device& device, const RunOptions& options) {
  const int64_t start = Trace::Now();
  RETURN_IF_ERROR(std::visit(runner, step));
  RETURN_IF_ERROR(device.Synchronize(options.stream));
  const StepName name = NameOf(step);
  const bool library = std::holds_alternative<BoundExtern>(step);
  options.trace->Add(name.name,
                     library ? absl::StrCat("extern,", runner.library())
                             : std::string(name.category),
                     start);
  return absl::OkStatus();
}

// A caller's own result, `bytes` of memory; null where he makes none.
void* MakeResult(const WholeResult& result, int64_t bytes,
                 const RunOptions& options, const CallFrame& frame) {
  if (options.results == nullptr || result.output < 0) return nullptr;
  KnownView known;
  WorkOut(*result.view, frame, known);
  // A padded one is larger than its elements span.
  if (SpannedElements(known.view) * known.view.element_bytes != bytes) {
    return nullptr;
  }
  return options.results->Make(
      result.output, {result.view->dtype, known.sizes, known.strides});
}

// Of an output, or of a temporary with memory of its own.
absl::Status Take(const BoundPlan& plan, int32_t number,
                  const RunOptions& options, CallFrame& frame) {
  const int64_t bytes = frame.values[plan.plan->buffers[number].bytes];
  frame.bases[number] = nullptr;
  if (bytes <= 0) return absl::OkStatus();
  void* const made =
      MakeResult(plan.whole_results[number], bytes, options, frame);
  if (made != nullptr) {
    frame.bases[number] = static_cast<char*>(made);
    return absl::OkStatus();
  }
  Allocator* const allocator = options.allocator != nullptr
                                   ? options.allocator
                                   : &frame.device->allocator();
  ASSIGN_OR_RETURN(void* const memory,
                   allocator->Allocate(bytes, options.stream));
  frame.owners[number] = std::shared_ptr<void>(
      memory, OutputDeleter{allocator, frame.device, bytes, options.stream});
  frame.bases[number] = static_cast<char*>(memory);
  return absl::OkStatus();
}

// Goes through the plan's memory events as the steps go by.
class MemoryWalk {
 public:
  MemoryWalk(const BoundPlan& plan, const RunOptions& options, CallFrame& frame)
      : plan_(plan),
        options_(options),
        frame_(frame),
        take_(plan.memory.takes.begin()),
        give_(plan.memory.gives.begin()),
        done_(plan.memory.inputs_done.begin()) {}

  absl::Status Before(int32_t step) {
    for (; take_ != plan_.memory.takes.end() && take_->step == step; ++take_) {
      RETURN_IF_ERROR(Take(plan_, take_->subject, options_, frame_));
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
  using Event = std::vector<MemoryEvent>::const_iterator;
  const BoundPlan& plan_;
  const RunOptions& options_;
  CallFrame& frame_;
  Event take_, give_, done_;
};

}  // namespace

void EvaluateWave(const BoundPlan& plan, int32_t wave, CallFrame& frame) {
  for (const ExprId id : plan.waves[wave].expressions) {
    frame.values[id] =
        plan.plan->expressions[id].program.Evaluate(frame.symbols);
  }
}

void PlaceInputs(const BoundPlan& plan, absl::Span<const InputView> inputs,
                 CallFrame& frame) {
  char** const bases = frame.bases.data();
  for (const BoundInput& bound : plan.inputs) {
    bases[bound.buffer] = static_cast<char*>(inputs[bound.input].data);
  }
}

absl::Status PlaceWave(const BoundPlan& plan, int32_t wave,
                       const RunOptions& options, CallFrame& frame,
                       const LoadedArtifact& artifact) {
  if (wave == 0) {
    RETURN_IF_ERROR(frame.ReserveArena(frame.values[plan.plan->arena_bytes],
                                       options.stream, options.allocator));
  }
  for (const int32_t number : plan.waves[wave].buffers) {
    const PlanBuffer& buffer = plan.plan->buffers[number];
    switch (buffer.kind) {
      case PlanBuffer::Kind::kConstant:
        frame.bases[number] =
            static_cast<char*>(artifact.constants()[buffer.index]);
        break;
      case PlanBuffer::Kind::kArena:
        frame.bases[number] = frame.arena + frame.values[buffer.offset];
        break;
      case PlanBuffer::Kind::kCounters:
        RETURN_IF_ERROR(
            frame.ReserveCounters(frame.values[buffer.bytes], options.stream));
        frame.bases[number] = frame.counters;
        break;
      case PlanBuffer::Kind::kInput:
      case PlanBuffer::Kind::kOutput:
      case PlanBuffer::Kind::kOwn:
        break;  // elsewhere: once, or when a step needs it
    }
  }
  return absl::OkStatus();
}

absl::Status PlaceSeed(const BoundPlan& plan, const RunOptions& options,
                       CallFrame& frame) {
  if (!plan.reads_seed_slot) return absl::OkStatus();
  char*& slot = frame.bases[plan.seed_slot()];
  slot = static_cast<char*>(options.seed_slot);
  if (slot != nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(frame.ReserveSeedSlot(options.stream));
  slot = frame.seed_slot;
  return frame.device->Fill(slot, sizeof(options.seed), 1, options.seed,
                            options.stream);
}

absl::Status RunSteps(const BoundPlan& plan, const RunOptions& options,
                      CallFrame& frame, const LoadedArtifact& artifact) {
  StepRunner runner(plan, options, frame, artifact);
  MemoryWalk memory(plan, options, frame);
  memory.InputsDone(-1);
  int32_t number = 0;
  for (const BoundStep& step : plan.steps) {
    RETURN_IF_ERROR(memory.Before(number));
    const absl::Status status =
        options.trace == nullptr
            ? std::visit(runner, step)
            : RunTraced(step, runner, artifact.device(), options);
    if (!status.ok()) return Annotate(status, NameOf(step).name);
    memory.After(number++);
  }
  return memory.Before(number);
}

}  // namespace kiln
