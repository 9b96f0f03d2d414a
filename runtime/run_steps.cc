#include "runtime/run_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/known_view.h"
#include "runtime/memory_walk.h"
#include "runtime/step_launch.h"

namespace kiln {
namespace {

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
      frame_.scalars[i] =
          id == BoundLaunch::kSeed ? SeedOnHost() : frame_.values[id];
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
    const auto& shape = frame_.calls[call.step];
    RETURN_IF_ERROR(shape.status());
    const PreparedCall& prepared = *(*shape)->call;
    library_ = prepared.library();
    return call.site->Run(**shape, frame_.values, frame_.bases,
                          prepared.workspace_bytes() == 0
                              ? nullptr
                              : frame_.bases[plan_.workspace()],
                          options_.stream);
  }

  absl::Status operator()(const BoundCopy& step) {
    const KnownView from(step.copy->from, frame_);
    const KnownView to(step.copy->to, frame_);
    if (from.view().sizes != to.view().sizes) {
      return MakeError(ErrorReason::kArtifactCorrupt,
                       "launch plan: R6: a copy between unequal sizes");
    }
    if (from.IsEmpty()) return absl::OkStatus();
    return device().Copy(from.view(), to.view(), options_.stream);
  }

  absl::Status operator()(const BoundFill& step) {
    const KnownView to(step.fill->to, frame_);
    if (to.IsEmpty()) return absl::OkStatus();
    int64_t elements = 1;
    for (const int64_t size : to.view().sizes) elements *= size;
    if (to.SpannedElements() != elements) {  // in whatever order of dimensions
      return MakeError(ErrorReason::kArtifactCorrupt,
                       "launch plan: R6: a fill of a view with gaps");
    }
    return device().Fill(to.view().data, to.view().element_bytes, elements,
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

  // Kernels on the CPU take the seed as a number; a slot is the host's there.
  int64_t SeedOnHost() const {
    const auto* const slot = static_cast<const int64_t*>(options_.seed_slot);
    return slot != nullptr ? *slot : static_cast<int64_t>(options_.seed);
  }

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

// Does of a step what is done before its work, on the host.
class StepPlacer {
 public:
  StepPlacer(const BoundPlan& plan, const RunOptions& options, CallFrame& frame,
             const LoadedArtifact& artifact)
      : frame_(frame), on_the_host_(plan, options, frame, artifact) {}

  absl::Status operator()(const BoundExtern& call) {
    return frame_.calls[call.step].status();
  }
  absl::Status operator()(const BoundAssert& step) {
    return on_the_host_(step);
  }
  absl::Status operator()(const BoundBind& step) { return on_the_host_(step); }
  template <typename OfTheDevice>
  absl::Status operator()(const OfTheDevice&) {
    return absl::OkStatus();
  }

 private:
  const CallFrame& frame_;
  StepRunner on_the_host_;
};

std::vector<std::string> NodesOf(const BoundStep& step,
                                 const LoadedArtifact& artifact,
                                 const NodeWords* words) {
  const auto* launch = std::get_if<BoundLaunch>(&step);
  const auto* call = std::get_if<BoundExtern>(&step);
  if (words == nullptr || (launch == nullptr && call == nullptr)) return {};
  std::vector<std::string> nodes;
  for (const uint32_t node :
       ClientNodesOf(artifact, launch != nullptr ? launch->step : call->step)) {
    nodes.push_back(words->Of(node));
  }
  return nodes;
}

// A traced step is waited for: its time is its own, not the launch's.
absl::Status RunTraced(const BoundStep& step, StepRunner& runner,
                       const LoadedArtifact& artifact,
                       const RunOptions& options) {
  const int64_t start = Trace::Now();
  RETURN_IF_ERROR(std::visit(runner, step));
  RETURN_IF_ERROR(artifact.device().Synchronize(options.stream));
  const StepName name = NameOf(step);
  const bool library = std::holds_alternative<BoundExtern>(step);
  options.trace->Add(name.name,
                     library ? absl::StrCat("extern,", runner.library())
                             : std::string(name.category),
                     start, NodesOf(step, artifact, options.nodes));
  return absl::OkStatus();
}

// Makes the wave's library calls ready, and sees to what the largest of them writes
// beside its results. One that no library takes fails in its step: an assertion
// before it may have more to say.
absl::Status PlaceCalls(const BoundPlan& plan, int32_t wave,
                        const RunOptions& options, CallFrame& frame) {
  int64_t bytes = 0;
  for (const int32_t step : plan.waves[wave].calls) {
    auto& shape = frame.calls[step];
    shape =
        std::get<BoundExtern>(plan.steps[step]).site->ShapeFor(frame.values);
    if (!shape.ok()) continue;
    bytes = std::max(bytes, (*shape)->call->workspace_bytes());
  }
  RETURN_IF_ERROR(frame.ReserveWorkspace(bytes, options.stream,
                                         AllocatorOf(options, *frame.device)));
  frame.bases[plan.workspace()] = frame.workspace;
  return absl::OkStatus();
}

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
  for (const BoundGrid& grid : plan.waves[wave].grids) {
    RETURN_IF_ERROR(CheckGrid(grid, artifact.device().traits(), frame.values));
  }
  if (wave == 0) {
    RETURN_IF_ERROR(frame.ReserveArena(frame.values[plan.plan->arena_bytes],
                                       options.stream, options.allocator));
  }
  RETURN_IF_ERROR(PlaceCalls(plan, wave, options, frame));
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

absl::Status PlaceSteps(const BoundPlan& plan, const RunOptions& options,
                        CallFrame& frame, const LoadedArtifact& artifact) {
  StepPlacer placer(plan, options, frame, artifact);
  MemoryWalk memory(plan, options, frame);
  memory.InputsDone(-1);
  int32_t number = 0;
  for (const BoundStep& step : plan.steps) {
    RETURN_IF_ERROR(memory.Before(number));
    const absl::Status status = std::visit(placer, step);
    if (!status.ok()) return Annotate(status, NameOf(step).name);
    memory.After(number++);
  }
  return memory.Before(number);
}

absl::Status PutSteps(const BoundPlan& plan, const RunOptions& options,
                      CallFrame& frame, const LoadedArtifact& artifact) {
  StepRunner runner(plan, options, frame, artifact);
  for (const BoundStep& step : plan.steps) {
    if (std::holds_alternative<BoundAssert>(step) ||
        std::holds_alternative<BoundBind>(step)) {
      continue;
    }
    const absl::Status status = std::visit(runner, step);
    if (!status.ok()) return Annotate(status, NameOf(step).name);
  }
  return absl::OkStatus();
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
        options.trace == nullptr ? std::visit(runner, step)
                                 : RunTraced(step, runner, artifact, options);
    if (!status.ok()) return Annotate(status, NameOf(step).name);
    memory.After(number++);
  }
  return memory.Before(number);
}

}  // namespace kiln
