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

// Finds the step of `program` whose tuning key is `key` (it begins with kWayKey), and
// times each way to compute that step alone. `program` is LowerGraph's. A way is a plan;
// its kernels and library calls are tuned as the decisions in `env` say. If there are no
// choices, all ways that the machine's libraries support are timed.
//
// Every way is timed in each of three turns, and the medians over the turns are
// compared. The step's default way wins unless another saves more than the turns of
// either differ. These times leave out what fusion with neighbours would save; so where
// the default is generated kernels, another way must also save the time of a launch.
//
// Errors: BAD_OPTION if no step has the key, or for a choice that is not one of its
// ways; UNSUPPORTED_OP if no library supports any way; those of passes; those of
// `toolchain` and `stopwatch`, prefixed with the key and the way.
absl::StatusOr<Measurement> MeasureWay(LoopProgram program, const PassEnv& env,
                                       absl::string_view key,
                                       const MeasureOptions& options,
                                       Toolchain& toolchain,
                                       Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_WAY_H_
