#ifndef KILN_COMPILER_LOOP_CONTRACTION_VERIFIER_H_
#define KILN_COMPILER_LOOP_CONTRACTION_VERIFIER_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/loop/contraction.h"

namespace kiln {

// Invariants of a contraction. One that breaks them is a bug of ours.
//
//   C1  It has the axes of its form.
//   C2  Each operand's view names a buffer, and has a stride and an index for each size.
//       The index is over the axes; in a product each index is a single axis.
//   C3  The body has two factors with the dtypes of the operands that are read, and one
//       kContract of both. Nodes read only nodes before them.
//   C4  No node after the sum reads a factor. Loads do not depend on factors. Each has the
//       buffer's dtype and one index per dimension, over axes in the written operand's
//       index.
//   C5  The value depends on the sum and has the written view's dtype.
//
// Errors: INTERNAL with the number, the step, what was found and what was expected.
// Linear.
absl::Status VerifyContraction(const Contraction& contraction,
                               const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_CONTRACTION_VERIFIER_H_
