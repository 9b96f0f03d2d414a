#ifndef KILN_COMPILER_TUNE_MEASURE_WAY_H_
#define KILN_COMPILER_TUNE_MEASURE_WAY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/measurement.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// Takes a program as LowerGraph gives it, finds the step that decisions under `key` (one
// that begins with kWayKey) are for, and times it alone in each of its ways: each is a
// plan, whose kernels and calls are as the decisions of `env` name them. All are timed in
// each of three turns, the medians of which are compared. What a step has without a
// decision stays unless another way saves more than either's turns differ. What fusion
// with its neighbours would save is not in these times: where a step is kernels of ours
// without a decision, another way must save a launch too. Without choices: all ways that
// the machine's libraries take.
//
// Errors: BAD_OPTION when no step has the key, or for a choice that is none of its ways;
// UNSUPPORTED_OP when no library takes any way; those of passes; those of `toolchain` and `stopwatch`, with the key and the way in
// front.
absl::StatusOr<Measurement> MeasureWay(LoopProgram program, const PassEnv& env,
                                       absl::string_view key,
                                       const MeasureOptions& options,
                                       Toolchain& toolchain,
                                       Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_WAY_H_
