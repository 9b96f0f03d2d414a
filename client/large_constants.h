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

// Constants of more than kMaxConstantBytes (proto/key/graph_limits.h: 1 MiB)
// never leave the client. In the graph that is compiled they are inputs, behind
// the caller's own; their data goes to the device once, and every run is given
// it. So no wire, daemon, cache or artifact holds it, and graphs that differ in
// nothing else share an artifact.
//
// Leaves alone: smaller constants, which the compiler may look at.

namespace kiln {

// `graph` as it is compiled. Only the numbers of constants change: those of the
// large ones follow the inputs, in order. The data of large ones is not copied.
//
//   MALFORMED_GRAPH  a large constant whose data is not as long as its sizes and
//                    dtype say, or that is not laid out row-major
//   UNSUPPORTED_OP   one of a dtype that nothing computes with
//   those of CheckKnown (proto/key/graph_checks.h)
absl::StatusOr<wire::Graph> WithLargeConstantsAsInputs(
    const wire::Graph& graph);

// The large constants of a graph that WithLargeConstantsAsInputs takes, in
// order, on the device; what a run is given behind the caller's inputs. Their
// memory goes with the last copy. For runs on any stream.
//
// RESOURCE_EXHAUSTED when the device has no memory for them.
absl::StatusOr<std::vector<InputValue>> UploadLargeConstants(
    const wire::Graph& graph, const OpenedDevice& on);

// UNSUPPORTED_OP when the plan writes one of its last `count` inputs: a constant
// is as it was at every run.
absl::Status CheckConstantsStay(const wire::LaunchPlan& plan, int count);

// What a run is given where there are large constants: them behind the caller's
// inputs, and an observer that tells the caller of his own alone. For as long as
// the run takes.
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
