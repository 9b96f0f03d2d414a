#ifndef KILN_COMPILER_CODEGEN_CUDA_SELECTIONS_H_
#define KILN_COMPILER_CODEGEN_CUDA_SELECTIONS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaSelections kernel. A key has 64 bits: the value as an
// integer with the same order, then its position in the row. So all keys are distinct,
// and the result does not depend on the order in which threads add them. `body` must have
// the variant's vectors.
//
// Errors: UNSUPPORTED_OP for values of more than 32 bits.
absl::StatusOr<CudaGrid> WriteCudaSelections(CudaBody& body,
                                             const CudaSelections& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SELECTIONS_H_
