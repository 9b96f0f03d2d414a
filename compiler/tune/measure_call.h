#ifndef KILN_COMPILER_TUNE_MEASURE_CALL_H_
#define KILN_COMPILER_TUNE_MEASURE_CALL_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/tune/measurement.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// The most algorithms that one measurement compares.
inline constexpr int kMostAlgorithmsMeasured = 12;

// The first library call of `plan` whose tuning key (choose_algorithm.h) is `key`, or
// null if there is none.
const LibraryCall* CallOfKey(const KernelPlan& plan, const Target& target,
                             absl::string_view key);

// Describes `call` of `plan` to a stopwatch, with symbols at their hints.
TimedCall TimedCallOf(const LibraryCall& call, const KernelPlan& plan,
                      const Target& target);

// Times `call` of `plan` with each algorithm in `options.choices`, with symbols at
// their hints. If there are no choices, it times the first kMostAlgorithmsMeasured that
// the library lists; the library's own choice is the first of these.
//
// Errors: UNSUPPORTED_OP if the library lists no algorithm; those of `stopwatch`,
// prefixed with the key and the algorithm.
absl::StatusOr<Measurement> MeasureCall(
    const LibraryCall& call, const KernelPlan& plan, const Target& target,
    absl::string_view key, const MeasureOptions& options, Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_CALL_H_
