#ifndef KILN_COMPILER_TUNE_TUNING_FROM_WIRE_H_
#define KILN_COMPILER_TUNE_TUNING_FROM_WIRE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/apply_tuning.h"
#include "compiler/tune/stopwatch.h"
#include "proto/worker.pb.h"

namespace kiln {

// The decisions that a plan request carries, in its order.
std::vector<TunedChoice> TunedChoicesOf(const wire::PlanRequest& request);

// Answers a TuneRowRequest: tune_row.h.
//
// Errors: BAD_OPTION for a size below 1 or a dtype that is not computed with;
// BAD_TARGET; those of TuneRow.
absl::StatusOr<wire::TuningDecision> AnswerTuneRow(
    const wire::TuneRowRequest& request, Toolchain& toolchain,
    Stopwatch& stopwatch);

// Answers a MeasureRequest: builds the variants it brings and times them. The
// winner is the first within 2% of the best.
//
// Errors: BAD_OPTION when the lists differ in length, a launch names a kernel
// that its variant has not or a buffer without a size, a block has more threads
// than a block can, or a number is not constant; those of both tools.
absl::StatusOr<wire::TuningDecision> AnswerMeasure(
    const wire::MeasureRequest& request, Toolchain& toolchain,
    Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_TUNING_FROM_WIRE_H_
