#ifndef KILN_COMPILER_TUNE_MEASURE_CALL_H_
#define KILN_COMPILER_TUNE_MEASURE_CALL_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/tune/measurement.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// The algorithms that a measurement compares at most.
inline constexpr int kMostAlgorithmsMeasured = 12;

// The library call of `plan` that decisions under `key` are for (choose_algorithm.h):
// the first that has it, or null.
const LibraryCall* CallOfKey(const KernelPlan& plan, const Target& target,
                             absl::string_view key);

// `call` of `plan` as the stopwatch takes it, symbols at their hints.
TimedCall TimedCallOf(const LibraryCall& call, const KernelPlan& plan,
                      const Target& target);

// Times `call` of `plan` with each algorithm, symbols at their hints. Without
// choices: the first that the library names, its own first choice among them.
//
// Errors: those of `stopwatch`, with the key and the algorithm in front.
absl::StatusOr<Measurement> MeasureCall(
    const LibraryCall& call, const KernelPlan& plan, const Target& target,
    absl::string_view key, const MeasureOptions& options, Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_CALL_H_
