#ifndef KILN_COMPILER_CODEGEN_CUDA_FLASH_H_
#define KILN_COMPILER_CODEGEN_CUDA_FLASH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/flash_kernel.h"

namespace kiln {

// Writes the kernel for `target`, a CUDA one: its numbers and arguments, of which
// k_flash_forward and its like (cuda_prelude_flash.h) are templates. Sizes and strides
// that are known stand in the text. Pure.
//
// INTERNAL  a kernel that has no variant for it
absl::StatusOr<KernelSource> WriteFlashKernel(
    const FlashKernel& kernel, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_FLASH_H_
