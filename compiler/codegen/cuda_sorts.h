#ifndef KILN_COMPILER_CODEGEN_CUDA_SORTS_H_
#define KILN_COMPILER_CODEGEN_CUDA_SORTS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The statements of a CudaSorts kernel. A key is 64 bits: the value as a number
// that compares as it does, then its place; so all keys differ, and their order
// is the same whatever order they came in. `body` has the variant's vectors; the
// kernel needs 8 bytes of shared memory for each of the variant's capacity.
//
// UNSUPPORTED_OP for values of more than 32 bits.
absl::StatusOr<CudaGrid> WriteCudaSorts(CudaBody& body,
                                        const CudaSorts& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SORTS_H_
