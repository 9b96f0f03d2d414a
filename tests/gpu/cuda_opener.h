#ifndef KILN_TESTS_GPU_CUDA_OPENER_H_
#define KILN_TESTS_GPU_CUDA_OPENER_H_

#include "runtime/opened_device.h"

namespace kiln {

// The machine's first GPU with its libraries, opened once; both null where
// there is none. Folders with CUDA's libraries come from KILN_CUDA_LIBRARY_PATH
// (separated by colons), then CUDA's own default folder.
OpenedDevice OpenCudaOrNull();
// The second one.
OpenedDevice OpenSecondCudaOrNull();

}  // namespace kiln

#endif  // KILN_TESTS_GPU_CUDA_OPENER_H_
