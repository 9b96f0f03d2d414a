#ifndef KILN_COMPILER_SCHEDULE_GELU_GRADIENT_H_
#define KILN_COMPILER_SCHEDULE_GELU_GRADIENT_H_

#include <optional>
#include <vector>

#include "compiler/loop/scalar_expr.h"

namespace kiln {

// If `value` is node `sum` times the derivative of gelu(x, "tanh") for a loaded x, the
// node that is x (the load, or its cast to the type of the arithmetic). None otherwise.
//
// Models write this derivative in many ways, so its form is not compared. By its form
// `value` must be `sum` times an analytic function of x alone; that function is then
// compared with the derivative at many points. Linear in the body. Pure.
std::optional<ScalarId> InputOfGeluTanhGradient(
    const std::vector<ScalarNode>& body, ScalarId value, ScalarId sum);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_GELU_GRADIENT_H_
