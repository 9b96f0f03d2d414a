#ifndef KILN_COMPILER_LOOP_CONTRACTION_VERIFIER_H_
#define KILN_COMPILER_LOOP_CONTRACTION_VERIFIER_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/loop/contraction.h"

namespace kiln {

// Invariants of a contraction. Breaking one is our bug.
//
//   C1  It has the axes of its form.
//   C2  Each operand's view names a buffer and has a stride and an index for each
//       size; the index is over the axes, a product's axes by themselves.
//   C3  The body has two factors of the dtypes of what is read, and one kContract,
//       of the two; nodes read nodes before them.
//   C4  No node after the sum reads a factor. Loads depend on no factor. Each has
//       the buffer's dtype and one index a dimension, over axes that the written
//       operand's index names.
//   C5  The value depends on the sum and has the written view's dtype.
//
// INTERNAL with the number, the step, what was found and what was due. Linear.
absl::Status VerifyContraction(const Contraction& contraction,
                               const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_CONTRACTION_VERIFIER_H_
