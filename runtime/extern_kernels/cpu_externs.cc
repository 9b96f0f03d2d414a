#include "runtime/extern_kernels/cpu_externs.h"

#include <array>
#include <atomic>
#include <utility>

#include "proto/base/log.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/blocked_attention.h"
#include "runtime/extern_kernels/dnnl_bf16_matmul.h"
#include "runtime/extern_kernels/dnnl_convolution.h"
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
             absl::StatusOr<std::shared_ptr<const DnnlLibrary>> dnnl)
      : device_(std::move(device)),
        opened_(dnnl.status()),
        dnnl_(dnnl.ok() ? *std::move(dnnl) : nullptr) {
    if (dnnl_ != nullptr) WarmUp(*dnnl_);
  }

  Prepared Prepare(const ExternProblem& problem) override {
    if (const auto* order = std::get_if<OrderProblem>(&problem)) {
      return PreparePlainOrder(*order, device_->threads());
    }
    if (const auto* attention = std::get_if<AttentionProblem>(&problem)) {
      return PrepareBlockedAttention(*attention, dnnl_, device_->threads());
    }
    const auto* product = std::get_if<MatmulProblem>(&problem);
    if (product != nullptr && product->has_gelu_input) {
      // It refuses them with an error that names the call.
      return PreparePlainMatmul(*product, device_->threads());
    }
    const DType dtype =
        std::visit([](const auto& p) { return p.dtype; }, problem);
    if (IsHalf(dtype)) return PrepareHalf(problem, dtype);
    if (product != nullptr) return PrepareMatmul(*product);
    return PrepareConvolution(std::get<ConvolutionProblem>(problem));
  }

  int64_t weight_reorders() const override {
    return dnnl_ == nullptr ? 0 : dnnl_->weight_reorders();
  }

  int64_t fallbacks() const override { return fallbacks_.load(); }

 private:
  // oneDNN writes the code of sgemm, all its forms, when it is first called: 25
  // ms that the first call of a model should not pay. Not on a thread of its
  // own: a program may exit before that ends, and exit destroys what the
  // library is just building.
  static void WarmUp(const DnnlLibrary& dnnl) {
    const DnnlLibrary::SingleThread alone(dnnl);
    constexpr int kSide = 8;
    std::array<float, kSide * kSide> a{}, b{}, out{};
    IgnoreBecause(
        DnnlLibrary::Check(
            dnnl.dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1.0f, a.data(),
                            kSide, b.data(), kSide, 0.0f, out.data(), kSide),
            "sgemm"),
        "a call that matters reports it again");
  }

  Prepared PrepareHalf(const ExternProblem& problem, DType dtype) {
    if (dtype == DType::kBFloat16 && dnnl_ != nullptr &&
        dnnl_->multiplies_bf16()) {
      Prepared call = PrepareDnnlBf16(problem);
      if (ReasonOf(call.status()) != ErrorReason::kUnsupportedOp) return call;
    }
    return PrepareUpcast(problem, *this, *device_);
  }

  Prepared PrepareDnnlBf16(const ExternProblem& problem) {
    if (const auto* matmul = std::get_if<MatmulProblem>(&problem)) {
      return PrepareDnnlBf16Matmul(*matmul, dnnl_, *device_);
    }
    const auto& convolution = std::get<ConvolutionProblem>(problem);
    if (IsEmpty(convolution)) {
      return MakeError(ErrorReason::kUnsupportedOp, "oneDNN: empty");
    }
    return PrepareDnnlConvolution(convolution, dnnl_, *device_);
  }

  Prepared PrepareMatmul(const MatmulProblem& problem) {
    if (problem.dtype != DType::kFloat32) {
      return PreparePlainMatmul(problem, device_->threads());
    }
    absl::Status refused = opened_;
    if (dnnl_ != nullptr) {
      Prepared call = PrepareDnnlMatmul(problem, dnnl_, device_->threads());
      if (ReasonOf(call.status()) != ErrorReason::kUnsupportedOp) return call;
      refused = call.status();
    }
    CountFallback(problem, refused);
    return PreparePlainMatmul(problem, device_->threads());
  }

  Prepared PrepareConvolution(const ConvolutionProblem& problem) {
    if (problem.dtype != DType::kFloat32 || IsEmpty(problem)) {
      return PreparePlainConvolution(problem, device_->threads());
    }
    absl::Status refused = opened_;
    if (dnnl_ != nullptr) {
      Prepared call = PrepareDnnlConvolution(problem, dnnl_, *device_);
      if (ReasonOf(call.status()) != ErrorReason::kUnsupportedOp) return call;
      refused = call.status();
    }
    CountFallback(problem, refused);
    return PreparePlainConvolution(problem, device_->threads());
  }

  void CountFallback(const ExternProblem& problem,
                     const absl::Status& because) {
    if (fallbacks_.fetch_add(1) > 0) return;
    LogWarning("extern.fell_back", {{"call", Describe(problem)},
                                    {"to", "own loops"},
                                    {"because", because.message()}});
  }

  static bool IsEmpty(const ConvolutionProblem& p) {
    bool empty =
        p.batch == 0 || p.image_channels == 0 || p.result_channels == 0;
    for (int i = 0; i < p.spatial; ++i) {
      empty = empty || p.image[i] == 0 || p.result[i] == 0 || p.window[i] == 0;
    }
    return empty;
  }

  const std::shared_ptr<CpuDevice> device_;
  const absl::Status opened_;                      // why there is no dnnl_
  const std::shared_ptr<const DnnlLibrary> dnnl_;  // null: not on the machine
  std::atomic<int64_t> fallbacks_{0};
};

}  // namespace

std::shared_ptr<ExternLibrary> MakeCpuExternsWith(
    std::shared_ptr<CpuDevice> device,
    absl::StatusOr<std::shared_ptr<const DnnlLibrary>> dnnl) {
  return std::make_shared<CpuExterns>(std::move(device), std::move(dnnl));
}

std::shared_ptr<ExternLibrary> MakeCpuExterns(
    std::shared_ptr<CpuDevice> device,
    const std::vector<std::string>& folders) {
  return MakeCpuExternsWith(std::move(device), DnnlLibrary::Open(folders));
}

}  // namespace kiln
