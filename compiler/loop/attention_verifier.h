#ifndef KILN_COMPILER_LOOP_ATTENTION_VERIFIER_H_
#define KILN_COMPILER_LOOP_ATTENTION_VERIFIER_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/loop/attention.h"

namespace kiln {

// Invariants of an attention. Breaking one is our bug.
//
//   A1  It has the arrays of its direction, and seed and offset only with dropout.
//   A2  Each array's view names a buffer, and has the sizes of its axes and a
//       stride for each.
//   A3  query, key, value, out, grad and the gradients have one float dtype.
//       logsumexp is f32, a bias has either type, seed and offset are i64.
//   A4  The scale is finite, dropout in [0, 1), the window not negative.
//
// INTERNAL with the number, the step, what was found and what was due. Constant
// time.
absl::Status VerifyAttention(const Attention& attention,
                             const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_ATTENTION_VERIFIER_H_
