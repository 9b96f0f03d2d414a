#include "compiler/codegen/cuda_codegen.h"

#include "proto/base/status.h"
namespace kiln {
absl::Status WriteCudaKernel(const PlannedKernel&, const std::vector<Buffer>&,
                             const ShapeEnv&, const Target&, NestFacts,
                             KernelSource&) {
  return MakeError(ErrorReason::kUnsupportedOp, "CUDA kernels");
}
}  // namespace kiln
