#ifndef KILN_TESTS_SUPPORT_SCALAR_OPS_H_
#define KILN_TESTS_SUPPORT_SCALAR_OPS_H_

#include <cstdint>

#include "compiler/loop/scalar_expr.h"

namespace kiln {

// One scalar operation, plainly: what generated code is compared with. Ends the
// test on an operation that has no such form.
double FloatOp(ScalarOp op, double a, double b, double c);
int64_t IntegerOp(ScalarOp op, int64_t a, int64_t b, int64_t c);

// The word of Philox4x32-10 that falls to `index`, four to a counter, as a
// float in [0, 1).
double Philox(uint64_t seed, uint64_t index, uint64_t stream);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_SCALAR_OPS_H_
