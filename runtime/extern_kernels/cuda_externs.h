#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDA_EXTERNS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDA_EXTERNS_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda_device.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// The libraries of a GPU: cuBLASLt for matrices, cuDNN for convolutions
// and attention. Each is looked for, in `folders` and then where the loader looks, when a plan
// first needs it; NO_DEVICE then if it is not on the machine. Thread-safe;
// keeps `device` alive.
std::shared_ptr<ExternLibrary> MakeCudaExterns(
    std::shared_ptr<CudaDevice> device,
    const std::vector<std::string>& folders);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDA_EXTERNS_H_
