#ifndef KILN_RUNTIME_COLLECT_OUTPUTS_H_
#define KILN_RUNTIME_COLLECT_OUTPUTS_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/call_frame.h"
#include "runtime/input_view.h"
#include "runtime/loaded_artifact.h"
#include "runtime/plan.h"
#include "runtime/tensor.h"

namespace kiln {

// The results of a call whose frame is `frame`, in the graph's order.
std::vector<OutputValue> CollectOutputs(
    const Plan& plan, const CallFrame& frame,
    absl::Span<const InputView> inputs,
    const std::shared_ptr<const LoadedArtifact>& artifact);

}  // namespace kiln

#endif  // KILN_RUNTIME_COLLECT_OUTPUTS_H_
