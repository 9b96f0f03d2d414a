#ifndef KILN_CLIENT_LARGE_CONSTANTS_H_
#define KILN_CLIENT_LARGE_CONSTANTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/artifact.pb.h"
#include "proto/graph.pb.h"
#include "runtime/executor.h"
#include "runtime/input_view.h"
#include "runtime/opened_device.h"
#include "runtime/tensor.h"

// Constants of more than kMaxConstantBytes (proto/key/graph_limits.h: 1 MiB) never leave
// the client. The compiled graph has them as inputs after the caller's own. Their data
// is uploaded to the device once and passed to every run. So it is in no message, cache
// or artifact, and graphs that differ only in such data share an artifact.
//
// Smaller constants stay in the graph, where the compiler can use their values.

namespace kiln {

// The graph that is compiled for `graph`. Only the numbers of constants change: large
// ones are numbered after the inputs, in their order. Their data is not copied.
//
// Errors: those of CheckKnown (proto/key/graph_checks.h), and
//   MALFORMED_GRAPH  the data of a large constant has the wrong length for its sizes and
//                    dtype, or its strides are not row-major
//   UNSUPPORTED_OP   a large constant has a dtype that Kiln does not compute with
absl::StatusOr<wire::Graph> WithLargeConstantsAsInputs(
    const wire::Graph& graph);

// Uploads the large constants of a graph that WithLargeConstantsAsInputs accepts.
// Returns them in order, as the inputs that follow the caller's. Runs on any stream may
// use them. Their memory is freed with the last copy.
//
// RESOURCE_EXHAUSTED if the device has too little memory.
absl::StatusOr<std::vector<InputValue>> UploadLargeConstants(
    const wire::Graph& graph, const OpenedDevice& on);

// UNSUPPORTED_OP if the plan writes to one of its last `count` inputs: constants must
// stay the same from run to run.
absl::Status CheckConstantsStay(const wire::LaunchPlan& plan, int count);

// The inputs of a run with large constants: the caller's, then the constants. Its
// observer passes on only events of the caller's inputs. Keep it until the run returns.
class RunWithConstants : private InputObserver {
 public:
  // `constants` must outlive this.
  RunWithConstants(absl::Span<const InputView> callers,
                   absl::Span<const InputValue> constants,
                   const RunOptions& options);
  RunWithConstants(const RunWithConstants&) = delete;
  RunWithConstants& operator=(const RunWithConstants&) = delete;

  absl::Span<const InputView> inputs() const { return inputs_; }
  const RunOptions& options() const { return options_; }

 private:
  void Done(int32_t input) override;

  const int32_t callers_;
  InputObserver* const observer_;
  std::vector<InputView> inputs_;
  RunOptions options_;
};

}  // namespace kiln

#endif  // KILN_CLIENT_LARGE_CONSTANTS_H_
