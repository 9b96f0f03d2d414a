#ifndef KILN_COMPILER_SCHEDULE_LIBRARY_TAKES_H_
#define KILN_COMPILER_SCHEDULE_LIBRARY_TAKES_H_

// What libraries compute. Source: what runtime/extern_kernels/extern_kernel.h promises.

#include <string>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/loop/contraction.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Whether one call of a library of `target` computes a verified contraction with its
// prologue and epilogue. `ground` names the library with what it does beside the sums,
// or says what no library does: "cuBLASLt, bias", "relu of i64", "gelu_tanh_gradient
// with 2052 columns, no multiple of 8".
bool LibraryTakes(const Contraction& contraction,
                  const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                  const Target& target, std::string& ground);

// Whether cuDNN's engines can compute the epilogue of a convolution while they write.
// They can for channels-last images of half types, with channels in whole vectors and
// in one group, and not for gradients. The epilogue must be max(sum + bias + added, 0);
// `added` may be absent. On an H100 this takes 0.4 to 1.0 of the time of a convolution
// and a separate pass (bench/records/h100_contractions.md).
bool EpilogueOnCudnn(const Contraction& contraction);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LIBRARY_TAKES_H_
