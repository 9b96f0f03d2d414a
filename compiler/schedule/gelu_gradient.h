#ifndef KILN_COMPILER_SCHEDULE_GELU_GRADIENT_H_
#define KILN_COMPILER_SCHEDULE_GELU_GRADIENT_H_

#include <optional>
#include <vector>

#include "compiler/loop/scalar_expr.h"

namespace kiln {

// If `value` is node `sum` times the derivative of gelu(x, "tanh") for a loaded x, the
// node that is x (the load, or its cast to the type of the arithmetic). None otherwise.
//
// Models write this derivative in many ways, so its form is not compared. If `value`
// consists of operations that are analytic functions of `sum` and x, it is evaluated at
// many points and compared with the derivative. Linear in the body. Pure.
std::optional<ScalarId> InputOfGeluTanhGradient(
    const std::vector<ScalarNode>& body, ScalarId value, ScalarId sum);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_GELU_GRADIENT_H_
