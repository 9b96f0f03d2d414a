#ifndef KILN_COMPILER_CODEGEN_CUDA_REDUCTIONS_H_
#define KILN_COMPILER_CODEGEN_CUDA_REDUCTIONS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/codegen/cuda_shape.h"
#include "compiler/codegen/kernel_passes.h"

namespace kiln {

// The body of a CUDA kernel that reduces or scans, by shape.mapping:
//
//   kRow     per_row neighbouring threads on each row, along the reduced axis;
//            a grid-stride loop over the rows
//   kColumn  per_row threads side by side, `rows` threads down the reduced
//            axes, whose parts are joined in shared memory
//   kSerial  a thread an outer point, in a grid-stride loop
//
// Parts are joined in one fixed order: results depend on shapes alone.
// UNSUPPORTED_OP names a reduction without a writer.
absl::StatusOr<CudaGrid> WriteCudaReduction(CudaBody& body,
                                            const CudaShape& shape,
                                            const KernelPasses& passes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_REDUCTIONS_H_
