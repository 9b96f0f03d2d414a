#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUBLASLT_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUBLASLT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cuda_device.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// cuBLASLt, found on the machine. Computes f32, bf16, f16 (both in f32) and f64
// matmuls, f32 through TF32 and sums of half types in rounded parts only where
// the call allows it (Precision).
//
// Adds the bias and applies the activation in the same kernel where it can, to the f32
// sum before it is rounded. A bias that repeats one row, with beta 1, costs nothing. Any
// other bias is read as the C matrix; if BLAS cannot describe its layout, it is first
// copied into the result.
//
// Uses the algorithm that the problem names if it is among the heuristic's first
// kMostAlgorithms, and the heuristic's first otherwise. A prepared call keeps its
// algorithm. Thread-safe.
class CublasLt {
 public:
  // NO_DEVICE  no libcublasLt.so.13 or .12
  static absl::StatusOr<std::shared_ptr<const CublasLt>> Open(
      std::shared_ptr<CudaDevice> device,
      const std::vector<std::string>& folders);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // UNSUPPORTED_OP  a dtype, strides or (for f64) an activation that the
  //                 library does not take: named
  static absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      std::shared_ptr<const CublasLt> library, const MatmulProblem& problem);

  // Names for MatmulProblem::algorithm, as ExternLibrary::Algorithms has them:
  // "id66.tile20.stages35.split1.reduce0.swizzle1.custom0.inner0.cluster2", the
  // numbers of the library's own enums.
  static absl::StatusOr<std::vector<std::string>> Algorithms(
      std::shared_ptr<const CublasLt> library, const MatmulProblem& problem,
      int most);

  struct Functions;
  const Functions& functions() const { return *functions_; }
  void* handle() const { return handle_; }
  CudaDevice& device() const { return *device_; }

  // OK, or INTERNAL with the library's name for `status`.
  absl::Status Check(int status, absl::string_view call) const;

 private:
  explicit CublasLt(std::shared_ptr<CudaDevice> device);

  const std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUBLASLT_H_
