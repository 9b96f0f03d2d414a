#include "runtime/extern_kernels/cudnn_finish.h"

#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kReluMode = 1;  // cudnnActivationMode_t
constexpr int kNanStays = 1;  // cudnnNanPropagation_t

}  // namespace

CudnnFinish::~CudnnFinish() {
  const Cudnn::Functions& f = library_->functions();
  for (const CudnnDescriptor described : {bias_, added_, written_})
    if (described != nullptr) f.cudnnDestroyTensorDescriptor(described);
  if (relu_ != nullptr) f.cudnnDestroyActivationDescriptor(relu_);
}

absl::Status CudnnFinish::Prepare(int type, const CudnnLongs& strides) {
  const Cudnn::Functions& f = library_->functions();
  RETURN_IF_ERROR(Describe(type, CudnnSizes(p_, WrittenOperand(p_.wanted)),
                           strides, &written_));
  if (p_.has_bias) {
    RETURN_IF_ERROR(Describe(type, CudnnSizes(p_, kBiasOperand),
                             CudnnStrides(p_, kBiasOperand), &bias_));
  }
  if (p_.has_added) {
    RETURN_IF_ERROR(Describe(type, CudnnSizes(p_, kAddedOperand),
                             CudnnStrides(p_, kAddedOperand), &added_));
  }
  if (p_.activation == Activation::kNone) return absl::OkStatus();
  RETURN_IF_ERROR(library_->Check(f.cudnnCreateActivationDescriptor(&relu_),
                                  "cudnnCreateActivationDescriptor"));
  return library_->Check(
      f.cudnnSetActivationDescriptor(relu_, kReluMode, kNanStays, 0),
      "cudnnSetActivationDescriptor");
}

absl::Status CudnnFinish::Describe(int type, const CudnnLongs& sizes,
                                   const CudnnLongs& strides,
                                   CudnnDescriptor* described) {
  const Cudnn::Functions& f = library_->functions();
  RETURN_IF_ERROR(library_->Check(f.cudnnCreateTensorDescriptor(described),
                                  "cudnnCreateTensorDescriptor"));
  const CudnnInts dims = ToCudnnInts(sizes), steps = ToCudnnInts(strides);
  return library_->Check(f.cudnnSetTensorNdDescriptor(
                             *described, type, static_cast<int>(dims.size()),
                             dims.data(), steps.data()),
                         "cudnnSetTensorNdDescriptor");
}

const void* CudnnFinish::One() const {
  static constexpr double kTwice = 1;
  static constexpr float kSingle = 1;
  return p_.dtype == DType::kFloat64 ? static_cast<const void*>(&kTwice)
                                     : &kSingle;
}

const void* CudnnFinish::Zero() const {
  static constexpr double kTwice = 0;
  static constexpr float kSingle = 0;
  return p_.dtype == DType::kFloat64 ? static_cast<const void*>(&kTwice)
                                     : &kSingle;
}

absl::Status CudnnFinish::Add(void* handle, CudnnDescriptor described,
                              const void* array, void* written) const {
  return library_->Check(
      library_->functions().cudnnAddTensor(handle, One(), described, array,
                                           One(), written_, written),
      "cudnnAddTensor");
}

absl::Status CudnnFinish::Run(void* handle, const void* bias, const void* added,
                              void* written) const {
  if (bias_ != nullptr) RETURN_IF_ERROR(Add(handle, bias_, bias, written));
  if (added_ != nullptr) RETURN_IF_ERROR(Add(handle, added_, added, written));
  if (relu_ == nullptr) return absl::OkStatus();
  return library_->Check(
      library_->functions().cudnnActivationForward(
          handle, relu_, One(), written_, written, Zero(), written_, written),
      "cudnnActivationForward");
}

}  // namespace kiln
