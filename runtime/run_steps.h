#ifndef KILN_RUNTIME_RUN_STEPS_H_
#define KILN_RUNTIME_RUN_STEPS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/bind_launches.h"
#include "runtime/call_frame.h"
#include "runtime/input_view.h"
#include "runtime/run_options.h"

// The interpreter of a bound plan.

namespace kiln {

// Evaluates the expressions of wave `wave`. Their symbols are bound in `frame`.
void EvaluateWave(const BoundPlan& plan, int32_t wave, CallFrame& frame);

// Writes down the places of the buffers that are inputs.
void PlaceInputs(const BoundPlan& plan, absl::Span<const InputView> inputs,
                 CallFrame& frame);

// Finds the places of the wave's other buffers: of wave 0 the arena too. Outputs
// are allocated when a step needs them. Makes the library calls ready whose shapes
// are known now, with the memory that they write beside their results.
//
// RESOURCE_EXHAUSTED     no memory for the arena or for library calls
// ARTIFACT_INCOMPATIBLE  a launch whose grid is known now has too large a one
absl::Status PlaceWave(const BoundPlan& plan, int32_t wave,
                       const RunOptions& options, CallFrame& frame,
                       const LoadedArtifact& artifact);

// Finds the slot that kernels read the run's random seed from, and writes it
// where the options name no other. Nothing for a plan that reads none.
//
// RESOURCE_EXHAUSTED  no memory on the device
absl::Status PlaceSeed(const BoundPlan& plan, const RunOptions& options,
                       CallFrame& frame);

// Does of all steps what comes before their work, in order: memory, assertions,
// symbols, library calls. Then PutSteps puts their work on the stream, any number
// of times, and allocates nothing.
//
// Errors: those of RunSteps, and of PlaceWave
absl::Status PlaceSteps(const BoundPlan& plan, const RunOptions& options,
                        CallFrame& frame, const LoadedArtifact& artifact);
absl::Status PutSteps(const BoundPlan& plan, const RunOptions& options,
                      CallFrame& frame, const LoadedArtifact& artifact);

// Puts all steps on the stream, in order.
//
// GUARD_FAILED  an assertion of the plan, in its own words
// OUT_OF_RANGE  the data held an index that is out of bounds; on the CPU only:
//               a GPU stops with its own error, which the next wait shows
// INTERNAL      the device or a library refused
absl::Status RunSteps(const BoundPlan& plan, const RunOptions& options,
                      CallFrame& frame, const LoadedArtifact& artifact);

}  // namespace kiln

#endif  // KILN_RUNTIME_RUN_STEPS_H_
