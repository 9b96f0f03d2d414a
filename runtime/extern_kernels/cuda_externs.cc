#include "runtime/extern_kernels/cuda_externs.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/cublaslt.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_attention.h"
#include "runtime/extern_kernels/cudnn_convolution.h"
#include "runtime/extern_kernels/prepared_calls.h"

namespace kiln {
namespace {

class CudaExterns final : public ExternLibrary {
 public:
  CudaExterns(std::shared_ptr<CudaDevice> device,
              const std::vector<std::string>& folders)
      : device_(std::move(device)), folders_(folders) {}

  absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      const ExternProblem& problem) override {
    if (auto call = prepared_.Find(problem)) return call;
    ASSIGN_OR_RETURN(auto call, PrepareAnew(problem));
    prepared_.Add(problem, call);
    return call;
  }

  // Asked once: a forward and its backward must hear the same.
  bool LacksAttention() override ABSL_LOCKS_EXCLUDED(attention_mu_) {
    MutexLock lock(&attention_mu_);
    if (!lacks_attention_.has_value()) {
      const absl::StatusOr<std::shared_ptr<Cudnn>> library =
          CudnnBehindMatrices();
      lacks_attention_ = !library.ok() || !HasCudnnAttention(**library);
    }
    return *lacks_attention_;
  }

  absl::StatusOr<std::vector<std::string>> Algorithms(
      const ExternProblem& problem, int most) override {
    if (const auto* matmul = std::get_if<MatmulProblem>(&problem)) {
      ASSIGN_OR_RETURN(auto library, Matrices());
      return CublasLt::Algorithms(std::move(library), *matmul, most);
    }
    if (std::holds_alternative<OrderProblem>(problem))
      return std::vector<std::string>();
    ASSIGN_OR_RETURN(auto library, CudnnBehindMatrices());
    if (const auto* attention = std::get_if<AttentionProblem>(&problem))
      return CudnnAttentionAlgorithms(*attention, std::move(library), most);
    return CudnnConvolutionAlgorithms(std::get<ConvolutionProblem>(problem),
                                      std::move(library), most);
  }

 private:
  absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareAnew(
      const ExternProblem& problem) {
    if (std::holds_alternative<OrderProblem>(problem)) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(Describe(problem), ": on CUDA"));
    }
    if (const auto* matmul = std::get_if<MatmulProblem>(&problem)) {
      ASSIGN_OR_RETURN(auto library, Matrices());
      return CublasLt::Prepare(std::move(library), *matmul);
    }
    ASSIGN_OR_RETURN(auto library, CudnnBehindMatrices());
    if (const auto* attention = std::get_if<AttentionProblem>(&problem))
      return PrepareCudnnAttention(*attention, std::move(library));
    return PrepareCudnnConvolution(std::get<ConvolutionProblem>(problem),
                                   std::move(library));
  }

  // Opening takes long, but whoever waits here needs the same library.
  absl::StatusOr<std::shared_ptr<const CublasLt>> Matrices()
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (!matrices_.has_value()) {
      matrices_ = CublasLt::Open(device_, folders_);
    }
    return *matrices_;
  }

  // cuDNN looks for cuBLASLt by name and finds one that is open.
  absl::StatusOr<std::shared_ptr<Cudnn>> CudnnBehindMatrices()
      ABSL_LOCKS_EXCLUDED(mu_) {
    IgnoreBecause(Matrices().status(), "cuDNN says so if it misses it");
    MutexLock lock(&mu_);
    if (!cudnn_.has_value()) {
      cudnn_ = Cudnn::Open(device_, folders_);
    }
    return *cudnn_;
  }

  const std::shared_ptr<CudaDevice> device_;
  const std::vector<std::string> folders_;
  PreparedCalls prepared_;
  Mutex mu_;
  std::optional<absl::StatusOr<std::shared_ptr<const CublasLt>>> matrices_
      ABSL_GUARDED_BY(mu_);
  std::optional<absl::StatusOr<std::shared_ptr<Cudnn>>> cudnn_
      ABSL_GUARDED_BY(mu_);
  Mutex attention_mu_;  // mu_ is taken behind it
  std::optional<bool> lacks_attention_ ABSL_GUARDED_BY(attention_mu_);
};

}  // namespace

std::shared_ptr<ExternLibrary> MakeCudaExterns(
    std::shared_ptr<CudaDevice> device,
    const std::vector<std::string>& folders) {
  return std::make_shared<CudaExterns>(std::move(device), folders);
}

}  // namespace kiln
