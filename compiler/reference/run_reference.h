#ifndef KILN_COMPILER_REFERENCE_RUN_REFERENCE_H_
#define KILN_COMPILER_REFERENCE_RUN_REFERENCE_H_

// The oracle: runs any graph of the supported operators, one node after the
// other, each as PyTorch documents it. Composite operators are computed
// directly and not through the compiler's decompositions, so that these can be
// tested against it. Memory is PyTorch's too: views alias, in-place operators
// write their arguments.
//
// Numbers: floating results are computed in double and rounded once, to the
// dtype of the result; so a half or f32 result is rounded at each operator as
// in eager mode, with less error inside.

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/graph/graph.h"
#include "compiler/reference/ref_tensor.h"

namespace kiln {

using RefValue = std::variant<std::monostate, RefTensor, int64_t>;

struct RefOutcome {
  std::vector<RefValue> outputs;  // in order of Graph::outputs
  // By input: the tensors after the run. What the graph mutates differs from
  // what came in.
  std::vector<RefValue> inputs;
};

// Runs `graph` on `inputs` (in order of Graph::inputs; tensors in any layout
// that has the right sizes and dtype). The caller's memory is not written.
//
// Errors:
//   INVALID_ARGUMENT  an input has another kind, rank, size or dtype than the
//                     graph says
//   UNIMPLEMENTED     an operator without a reference, named
//   INTERNAL          a reference function and the graph disagree
//
// Slow: meant for tests and for looking into small graphs.
absl::StatusOr<RefOutcome> RunReference(const Graph& graph,
                                        absl::Span<const RefValue> inputs,
                                        uint64_t seed = 0);

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_RUN_REFERENCE_H_
