#ifndef KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_
#define KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/loop/contraction.h"

namespace kiln {

// What libraries do behind a sum: activation(alpha * sum + beta * bias), of a
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

// What the body of a verified contraction does behind its sum; none when it is
// more, or something else, than that. Linear in the body, but for the search of an
// activation: its square.
std::optional<LibraryEpilogue> LibraryEpilogueOf(
    const Contraction& contraction, const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LIBRARY_EPILOGUE_H_
