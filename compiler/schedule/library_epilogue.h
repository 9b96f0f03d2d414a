#ifndef KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_
#define KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/loop/contraction.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// What a library can do with the sums of a contraction before it stores them. For a
// product: activation(alpha * sum + beta * bias). For a convolution:
// activation(sum + bias + added).
struct LibraryEpilogue {
  double alpha = 1;
  double beta = 1;
  // For a product: has the sizes of the result, with strides of 0 where it is broadcast.
  // For a convolution: [channels], one number for each channel that is written.
  std::optional<View> bias;
  // Only for a convolution that writes its result: has the result's sizes and strides.
  std::optional<View> added;
  // "" (none), "relu", "gelu_tanh" or "gelu_tanh_gradient"
  absl::string_view activation = "";
  // Only for the last of these, which only a product has: gelu_tanh'(input) * sum. Has
  // the sizes of the result.
  std::optional<View> gelu_input;
};

// The epilogue of a verified contraction. None if its body does anything else with the
// sum. Linear in the body, except that the search for an activation is quadratic. Pure.
std::optional<LibraryEpilogue> LibraryEpilogueOf(
    const Contraction& contraction, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_
