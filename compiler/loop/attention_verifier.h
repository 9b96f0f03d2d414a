#ifndef KILN_COMPILER_LOOP_ATTENTION_VERIFIER_H_
#define KILN_COMPILER_LOOP_ATTENTION_VERIFIER_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/loop/attention.h"

namespace kiln {

// Invariants of an attention. One that breaks them is a bug of ours.
//
//   A1  It has the arrays of its direction, and has seed and offset if and only if it has
//       dropout.
//   A2  Each array's view names a buffer, and has the sizes of its axes and a stride for
//       each.
//   A3  query, key, value, out, grad and the gradients have the same float dtype.
//       logsumexp is f32, a bias has that dtype or f32, seed and offset are i64.
//   A4  The scale is finite, dropout is in [0, 1), the window is not negative.
//
// Errors: INTERNAL with the number, the step, what was found and what was expected.
// Constant time.
absl::Status VerifyAttention(const Attention& attention,
                             const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_ATTENTION_VERIFIER_H_
