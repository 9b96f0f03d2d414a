#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_api.h"
#include "runtime/extern_kernels/cudnn_shapes.h"

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

// What an algorithm may ask for; more would crowd out a model's own memory.
constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;
constexpr int kAlgorithmsAsked = 10;

std::optional<int> CudnnType(DType dtype) {
  if (dtype == DType::kFloat32) return kCudnnFloat;
  if (dtype == DType::kFloat64) return kCudnnDouble;
  if (dtype == DType::kFloat16) return kCudnnHalf;
  if (dtype == DType::kBFloat16) return kCudnnBFloat16;
  return std::nullopt;
}

int MathType(const ConvolutionProblem& p) {
  if (IsHalf(p.dtype)) return kCudnnTensorOpMath;
  return p.precision.tf32 ? kCudnnDefaultMath : kCudnnFmaMath;
}

// Whether an algorithm rounds more than the result. Winograd's and FFT's
// transforms are stored in the dtype of the operands: in a half type even sums
// of small integers come out wrong.
bool RoundsInside(const ConvolutionProblem& p, int algorithm) {
  if (!IsHalf(p.dtype) || p.precision.reduced_sums) return false;
  const absl::Span<const int> transforms =
      p.wanted == Wanted::kResult  ? kCudnnForwardTransforms
      : p.wanted == Wanted::kImage ? kCudnnBackwardDataTransforms
                                   : kCudnnBackwardFilterTransforms;
  return std::find(transforms.begin(), transforms.end(), algorithm) !=
         transforms.end();
}

class CudnnConvolution final : public PreparedCall {
 public:
  CudnnConvolution(std::shared_ptr<Cudnn> library,
                   const ConvolutionProblem& problem)
      : library_(std::move(library)),
        p_(problem),
        written_(WrittenOperand(problem.wanted)) {}

  ~CudnnConvolution() override {
    const Cudnn::Functions& f = library_->functions();
    for (const int i : {kImageOperand, kResultOperand, kBiasOperand}) {
      if (described_[i] != nullptr) {
        f.cudnnDestroyTensorDescriptor(described_[i]);
      }
    }
    if (described_[kWeightsOperand] != nullptr) {
      f.cudnnDestroyFilterDescriptor(described_[kWeightsOperand]);
    }
    if (convolution_ != nullptr) {
      f.cudnnDestroyConvolutionDescriptor(convolution_);
    }
  }

  // As the caller's tensors lie, if cuDNN can; else on copies, channels first.
  absl::Status Prepare() {
    RETURN_IF_ERROR(library_->device().MakeCurrent());
    RETURN_IF_ERROR(CreateDescriptors());
    const CudnnLongs image_strides = CudnnStrides(p_, kImageOperand);
    const CudnnFormat natural = image_strides[1] == 1 && p_.image_channels > 1
                                    ? CudnnFormat::kChannelsLast
                                    : CudnnFormat::kChannelsFirst;
    absl::Status status = PrepareOn(natural, /*copy_all=*/false);
    if (!status.ok())
      status = PrepareOn(CudnnFormat::kChannelsFirst, /*copy_all=*/true);
    return Annotate(status, Describe(ExternProblem(p_)));
  }

  absl::Status Run(const ExternBuffers& buffers, Stream stream) const override {
    RETURN_IF_ERROR(library_->device().MakeCurrent());
    return Annotate(
        RunWithRoom(buffers, static_cast<char*>(buffers.workspace), stream),
        Describe(ExternProblem(p_)));
  }

  int64_t workspace_bytes() const override { return room_bytes_; }
  absl::string_view library() const override { return "cuDNN"; }

 private:
  absl::Status CreateDescriptors() {
    const Cudnn::Functions& f = library_->functions();
    for (const int i : {kImageOperand, kResultOperand, kBiasOperand}) {
      RETURN_IF_ERROR(
          library_->Check(f.cudnnCreateTensorDescriptor(&described_[i]),
                          "cudnnCreateTensorDescriptor"));
    }
    RETURN_IF_ERROR(library_->Check(
        f.cudnnCreateFilterDescriptor(&described_[kWeightsOperand]),
        "cudnnCreateFilterDescriptor"));
    RETURN_IF_ERROR(
        library_->Check(f.cudnnCreateConvolutionDescriptor(&convolution_),
                        "cudnnCreateConvolutionDescriptor"));
    const CudnnInts padding = CudnnSpatial(p_, p_.padding, 0);
    const CudnnInts stride = CudnnSpatial(p_, p_.stride, 1);
    const CudnnInts dilation = CudnnSpatial(p_, p_.dilation, 1);
    const int type = p_.dtype == DType::kFloat64 ? kCudnnDouble : kCudnnFloat;
    RETURN_IF_ERROR(library_->Check(
        f.cudnnSetConvolutionNdDescriptor(
            convolution_, static_cast<int>(padding.size()), padding.data(),
            stride.data(), dilation.data(), kCudnnCrossCorrelation, type),
        "cudnnSetConvolutionNdDescriptor"));
    RETURN_IF_ERROR(
        library_->Check(f.cudnnSetConvolutionGroupCount(
                            convolution_, static_cast<int>(p_.groups)),
                        "cudnnSetConvolutionGroupCount"));
    return library_->Check(
        f.cudnnSetConvolutionMathType(convolution_, MathType(p_)),
        "cudnnSetConvolutionMathType");
  }

  absl::Status PrepareOn(CudnnFormat format, bool copy_all) {
    const Cudnn::Functions& f = library_->functions();
    const int type = *CudnnType(p_.dtype);
    room_bytes_ = 0;
    for (const int i : {kImageOperand, kWeightsOperand, kResultOperand}) {
      const CudnnLongs sizes = CudnnSizes(p_, i);
      const CudnnLongs dense = CudnnDenseStrides(sizes, format);
      // Filters have no strides of their own, only a format.
      const bool must_be_dense = copy_all || i == kWeightsOperand;
      used_[i] = must_be_dense ? dense : CudnnStrides(p_, i);
      copied_[i] = !CudnnSameLayout(sizes, used_[i], CudnnStrides(p_, i));
      starts_[i] = room_bytes_;
      if (copied_[i]) room_bytes_ += RoundedBytes(sizes);
      const CudnnInts dims = ToCudnnInts(sizes);
      const CudnnInts strides = ToCudnnInts(used_[i]);
      const int rank = static_cast<int>(dims.size());
      RETURN_IF_ERROR(library_->Check(
          i == kWeightsOperand
              ? f.cudnnSetFilterNdDescriptor(
                    described_[i], type,
                    format == CudnnFormat::kChannelsLast ? kCudnnNhwc
                                                         : kCudnnNchw,
                    rank, dims.data())
              : f.cudnnSetTensorNdDescriptor(described_[i], type, rank,
                                             dims.data(), strides.data()),
          "cudnnSetNdDescriptor"));
    }
    RETURN_IF_ERROR(DescribeBias(type));
    starts_[kBiasOperand] = room_bytes_;  // the workspace comes last
    ASSIGN_OR_RETURN(const CudnnHandle handle, CudnnHandle::Borrow(*library_));
    RETURN_IF_ERROR(ChooseAlgorithm(handle.get()));
    room_bytes_ += static_cast<int64_t>(workspace_bytes_);
    return absl::OkStatus();
  }

  int64_t RoundedBytes(const CudnnLongs& sizes) const {
    int64_t bytes = SizeInBytes(p_.dtype);
    for (const int64_t size : sizes) bytes *= size;
    return (bytes + 255) / 256 * 256;
  }

  absl::Status DescribeBias(int type) const {
    if (!p_.has_bias) return absl::OkStatus();
    const int step = static_cast<int>(p_.bias_stride);
    const int channels = static_cast<int>(
        p_.wanted == Wanted::kImage ? p_.image_channels : p_.result_channels);
    CudnnInts dims(std::max(4, p_.spatial + 2), 1);
    CudnnInts strides(dims.size(), 1);
    dims[1] = channels;
    strides[0] = channels * step;
    strides[1] = step;
    return library_->Check(
        library_->functions().cudnnSetTensorNdDescriptor(
            described_[kBiasOperand], type, static_cast<int>(dims.size()),
            dims.data(), strides.data()),
        "cudnnSetTensorNdDescriptor");
  }

  // The three products take their arguments in different orders.
  absl::Status AskForAlgorithms(void* handle, CudnnAlgorithm* answers,
                                int* found) const {
    const Cudnn::Functions& f = library_->functions();
    const CudnnDescriptor x = described_[kImageOperand];
    const CudnnDescriptor w = described_[kWeightsOperand];
    const CudnnDescriptor y = described_[kResultOperand];
    switch (p_.wanted) {
      case Wanted::kResult:
        return library_->Check(f.cudnnGetConvolutionForwardAlgorithm_v7(
                                   handle, x, w, convolution_, y,
                                   kAlgorithmsAsked, found, answers),
                               "cudnnGetConvolutionForwardAlgorithm");
      case Wanted::kImage:
        return library_->Check(f.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                   handle, w, y, convolution_, x,
                                   kAlgorithmsAsked, found, answers),
                               "cudnnGetConvolutionBackwardDataAlgorithm");
      case Wanted::kWeights:
        return library_->Check(f.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                                   handle, x, y, convolution_, w,
                                   kAlgorithmsAsked, found, answers),
                               "cudnnGetConvolutionBackwardFilterAlgorithm");
    }
    return absl::InternalError("a convolution that wants nothing");
  }

  int WorkspaceBytes(void* handle, int algorithm, size_t* bytes) const {
    const Cudnn::Functions& f = library_->functions();
    const CudnnDescriptor x = described_[kImageOperand];
    const CudnnDescriptor w = described_[kWeightsOperand];
    const CudnnDescriptor y = described_[kResultOperand];
    switch (p_.wanted) {
      case Wanted::kResult:
        return f.cudnnGetConvolutionForwardWorkspaceSize(
            handle, x, w, convolution_, y, algorithm, bytes);
      case Wanted::kImage:
        return f.cudnnGetConvolutionBackwardDataWorkspaceSize(
            handle, w, y, convolution_, x, algorithm, bytes);
      case Wanted::kWeights:
        return f.cudnnGetConvolutionBackwardFilterWorkspaceSize(
            handle, x, y, convolution_, w, algorithm, bytes);
    }
    return 1;
  }

  absl::Status ChooseAlgorithm(void* handle) {
    std::array<CudnnAlgorithm, kAlgorithmsAsked> answers{};
    int found = 0;
    RETURN_IF_ERROR(AskForAlgorithms(handle, answers.data(), &found));
    for (int i = 0; i < found; ++i) {
      size_t bytes = 0;
      if (answers[i].status != 0 ||
          (p_.deterministic &&
           answers[i].determinism != kCudnnDeterministic) ||
          RoundsInside(p_, answers[i].algorithm) ||
          WorkspaceBytes(handle, answers[i].algorithm, &bytes) != 0 ||
          bytes > kMaxWorkspaceBytes) {
        continue;
      }
      algorithm_ = answers[i].algorithm;
      workspace_bytes_ = bytes;
      return absl::OkStatus();
    }
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("cuDNN: none of ", found,
                                  " algorithms is supported, ",
                                  p_.deterministic ? "deterministic, " : "",
                                  "exact but for one rounding, and within 1 "
                                  "GiB of workspace"));
  }

  absl::Status RunWithRoom(const ExternBuffers& buffers, char* room,
                           Stream stream) const {
    std::array<void*, 3> at;
    for (const int i : {kImageOperand, kWeightsOperand, kResultOperand}) {
      at[i] = copied_[i] ? room + starts_[i] : buffers.operand[i];
      if (copied_[i] && i != written_) {
        RETURN_IF_ERROR(CopyOperand(i, buffers.operand[i], CudnnStrides(p_, i),
                                    at[i], used_[i], stream));
      }
    }
    {
      ASSIGN_OR_RETURN(const CudnnHandle handle,
                       CudnnHandle::Borrow(*library_));
      RETURN_IF_ERROR(
          library_->Check(library_->functions().cudnnSetStream(
                              handle.get(), static_cast<CUstream>(stream)),
                          "cudnnSetStream"));
      RETURN_IF_ERROR(Convolve(handle.get(), at, room + starts_[kBiasOperand]));
      if (p_.has_bias) {
        RETURN_IF_ERROR(
            AddBias(handle.get(), buffers.operand[kBiasOperand], at[written_]));
      }
    }
    if (!copied_[written_]) return absl::OkStatus();
    return CopyOperand(written_, at[written_], used_[written_],
                       buffers.operand[written_], CudnnStrides(p_, written_),
                       stream);
  }

  absl::Status CopyOperand(int i, void* from, const CudnnLongs& from_strides,
                           void* to, const CudnnLongs& to_strides,
                           Stream stream) const {
    const CudnnLongs sizes = CudnnSizes(p_, i);
    const int64_t element = SizeInBytes(p_.dtype);
    return library_->device().Copy({from, element, sizes, from_strides},
                                   {to, element, sizes, to_strides}, stream);
  }

  absl::Status Convolve(void* handle, const std::array<void*, 3>& at,
                        void* workspace) const {
    const Cudnn::Functions& f = library_->functions();
    const CudnnDescriptor x = described_[kImageOperand];
    const CudnnDescriptor w = described_[kWeightsOperand];
    const CudnnDescriptor y = described_[kResultOperand];
    const double one_twice = 1, zero_twice = 0;
    const float one_single = 1, zero_single = 0;
    const bool twice = p_.dtype == DType::kFloat64;
    const void* const one =
        twice ? static_cast<const void*>(&one_twice) : &one_single;
    const void* const zero =
        twice ? static_cast<const void*>(&zero_twice) : &zero_single;
    switch (p_.wanted) {
      case Wanted::kResult:
        return library_->Check(
            f.cudnnConvolutionForward(handle, one, x, at[kImageOperand], w,
                                      at[kWeightsOperand], convolution_,
                                      algorithm_, workspace, workspace_bytes_,
                                      zero, y, at[kResultOperand]),
            "cudnnConvolutionForward");
      case Wanted::kImage:
        return library_->Check(
            f.cudnnConvolutionBackwardData(
                handle, one, w, at[kWeightsOperand], y, at[kResultOperand],
                convolution_, algorithm_, workspace, workspace_bytes_, zero, x,
                at[kImageOperand]),
            "cudnnConvolutionBackwardData");
      case Wanted::kWeights:
        return library_->Check(
            f.cudnnConvolutionBackwardFilter(
                handle, one, x, at[kImageOperand], y, at[kResultOperand],
                convolution_, algorithm_, workspace, workspace_bytes_, zero, w,
                at[kWeightsOperand]),
            "cudnnConvolutionBackwardFilter");
    }
    return absl::InternalError("a convolution that wants nothing");
  }

  absl::Status AddBias(void* handle, const void* bias, void* written) const {
    const double one_twice = 1;
    const float one_single = 1;
    const void* const one = p_.dtype == DType::kFloat64
                                ? static_cast<const void*>(&one_twice)
                                : &one_single;
    return library_->Check(library_->functions().cudnnAddTensor(
                               handle, one, described_[kBiasOperand], bias, one,
                               described_[written_], written),
                           "cudnnAddTensor");
  }

  const std::shared_ptr<Cudnn> library_;
  const ConvolutionProblem p_;
  const int written_;
  std::array<CudnnDescriptor, 4> described_{};
  CudnnDescriptor convolution_ = nullptr;
  std::array<CudnnLongs, 3> used_;   // strides that cuDNN computes on
  std::array<bool, 3> copied_{};     // where they are not the caller's
  std::array<int64_t, 4> starts_{};  // in the room; the last: workspace
  int64_t room_bytes_ = 0;
  int algorithm_ = 0;
  size_t workspace_bytes_ = 0;
};

// What is wanted has no elements, or is a sum of none: zeros.
class EmptyConvolution final : public PreparedCall {
 public:
  EmptyConvolution(std::shared_ptr<Cudnn> library,
                   const ConvolutionProblem& problem)
      : library_(std::move(library)), p_(problem) {}
  absl::Status Run(const ExternBuffers& buffers, Stream stream) const override {
    const int written = WrittenOperand(p_.wanted);
    int64_t elements = 1;
    for (const int64_t size : CudnnSizes(p_, written)) elements *= size;
    if (elements == 0) return absl::OkStatus();
    return library_->device().Fill(buffers.operand[written],
                                   SizeInBytes(p_.dtype), elements, 0, stream);
  }

  absl::string_view library() const override { return "cuDNN"; }

 private:
  const std::shared_ptr<Cudnn> library_;
  const ConvolutionProblem p_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> Cudnn::Prepare(
    std::shared_ptr<Cudnn> library, const ConvolutionProblem& problem) {
  if (!CudnnType(problem.dtype) || problem.activation != Activation::kNone) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(ExternProblem(problem)) + ": not for cuDNN");
  }
  if (IsEmpty(problem) && !problem.has_bias) {
    return std::make_shared<EmptyConvolution>(std::move(library), problem);
  }
  auto call = std::make_shared<CudnnConvolution>(std::move(library), problem);
  RETURN_IF_ERROR(call->Prepare());
  return std::shared_ptr<const PreparedCall>(std::move(call));
}

}  // namespace kiln
