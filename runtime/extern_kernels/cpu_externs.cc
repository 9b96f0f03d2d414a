#include "runtime/extern_kernels/cpu_externs.h"

#include <utility>

#include "proto/base/status.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/dnnl_matmul.h"
#include "runtime/extern_kernels/plain_kernels.h"
#include "runtime/extern_kernels/upcast.h"

namespace kiln {
namespace {

using Prepared = absl::StatusOr<std::shared_ptr<const PreparedCall>>;

class CpuExterns final : public ExternLibrary {
 public:
  CpuExterns(std::shared_ptr<CpuDevice> device,
             std::shared_ptr<const DnnlLibrary> dnnl)
      : device_(std::move(device)), dnnl_(std::move(dnnl)) {}

  Prepared Prepare(const ExternProblem& problem) override {
    const DType dtype =
        std::visit([](const auto& p) { return p.dtype; }, problem);
    if (IsHalf(dtype)) return PrepareUpcast(problem, *this, *device_);
    if (const auto* matmul = std::get_if<MatmulProblem>(&problem)) {
      return PrepareMatmul(*matmul);
    }
    return PreparePlainConvolution(std::get<ConvolutionProblem>(problem),
                                   device_->threads());
  }

 private:
  Prepared PrepareMatmul(const MatmulProblem& problem) {
    if (dnnl_ != nullptr) {
      Prepared call = PrepareDnnlMatmul(problem, dnnl_, device_->threads());
      if (ReasonOf(call.status()) != ErrorReason::kUnsupportedOp) return call;
    }
    return PreparePlainMatmul(problem, device_->threads());
  }

  const std::shared_ptr<CpuDevice> device_;
  const std::shared_ptr<const DnnlLibrary> dnnl_;  // null: not on the machine
};

}  // namespace

std::shared_ptr<ExternLibrary> MakeCpuExterns(
    std::shared_ptr<CpuDevice> device,
    const std::vector<std::string>& folders) {
  absl::StatusOr<std::shared_ptr<const DnnlLibrary>> dnnl =
      DnnlLibrary::Open(folders);
  // Without it everything is computed, slower: nobody has asked for oneDNN.
  return std::make_shared<CpuExterns>(std::move(device),
                                      dnnl.ok() ? *std::move(dnnl) : nullptr);
}

}  // namespace kiln
