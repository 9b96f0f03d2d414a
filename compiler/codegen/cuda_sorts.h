#ifndef KILN_COMPILER_CODEGEN_CUDA_SORTS_H_
#define KILN_COMPILER_CODEGEN_CUDA_SORTS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaSorts kernel: a stable radix sort. A word of shared
// memory has an element's key, an integer with the same order, and the element's place
// beside it, or apart from it for keys of 32 bits. `body` must have the variant's vectors.
//
// Errors: UNSUPPORTED_OP for values of more than 32 bits.
absl::StatusOr<CudaGrid> WriteCudaSorts(CudaBody& body,
                                        const CudaSorts& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SORTS_H_
