#ifndef KILN_RUNTIME_EXTERN_KERNELS_UPCAST_H_
#define KILN_RUNTIME_EXTERN_KERNELS_UPCAST_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// Computes a bf16 or f16 problem as f32 with `inner`: operands are widened into
// dense f32 tensors, the result is rounded to nearest even once, at the end.
// `inner` and `device` outlive the result.
absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareUpcast(
    const ExternProblem& problem, ExternLibrary& inner, CpuDevice& device);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_UPCAST_H_
