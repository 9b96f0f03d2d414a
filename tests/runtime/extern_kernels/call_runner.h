#ifndef KILN_TESTS_RUNTIME_EXTERN_KERNELS_CALL_RUNNER_H_
#define KILN_TESTS_RUNTIME_EXTERN_KERNELS_CALL_RUNNER_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/device.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/extern_kernels/read_extern_call.h"
#include "tests/runtime/extern_kernels/operand.h"

namespace kiln {

// Runs an extern call on operands of the host: they are uploaded, the outputs
// are read back. `call`'s inputs and outputs are filled in here. A call that copies
// an operand is run again with the copy made beforehand: INTERNAL when its outputs
// are not the same bits.
absl::Status RunCall(ExternCall call, const std::vector<Operand*>& inputs,
                     const std::vector<Operand*>& outputs, Device& device,
                     ExternLibrary& library);

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_EXTERN_KERNELS_CALL_RUNNER_H_
