#ifndef KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_
#define KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/loop/contraction.h"

namespace kiln {

// What libraries can do with a sum: activation(alpha * sum + beta * bias), or for a
// convolution activation(sum + bias + added).
struct LibraryEpilogue {
  double alpha = 1;
  double beta = 1;
  // Of a product: of the result's sizes, with strides of 0 where it is stretched.
  // Of a convolution: one number a channel of what is written.
  std::optional<View> bias;
  // Of a convolution that writes its result: of the result's sizes, and laid out as
  // it is.
  std::optional<View> added;
  absl::string_view activation = "";  // or "relu", "gelu_tanh"
};

// The epilogue of a verified contraction. None if its body does more with the sum, or
// something else. Linear in the body, except that the search for an activation is
// quadratic.
std::optional<LibraryEpilogue> LibraryEpilogueOf(
    const Contraction& contraction, const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_
