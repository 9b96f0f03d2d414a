#ifndef KILN_COMPILER_MEASURE_GRAPH_H_
#define KILN_COMPILER_MEASURE_GRAPH_H_

#include "absl/status/statusor.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/stopwatch.h"
#include "proto/worker.pb.h"

namespace kiln {

// Answers a MeasureRequest: plans its graph up to where kernels get their
// variants and measures the kernel or library call that has its key
// (tune/measure_kernel.h, tune/measure_call.h).
//
// Errors: of LowerRequest, MeasureKernel and MeasureCall.
absl::StatusOr<wire::TuningDecision> MeasureGraph(
    const wire::MeasureRequest& request, Toolchain& toolchain,
    Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_MEASURE_GRAPH_H_
