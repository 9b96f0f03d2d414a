#include "runtime/extern_kernels/cudnn_convolution.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/cudnn_api.h"
#include "runtime/extern_kernels/cudnn_finish.h"
#include "runtime/extern_kernels/cudnn_graph.h"
#include "runtime/extern_kernels/cudnn_plan.h"
#include "runtime/extern_kernels/cudnn_shapes.h"

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

// What an algorithm may ask for; more would crowd out a model's own memory.
constexpr int64_t kMaxWorkspaceBytes = int64_t{1} << 30;
constexpr uintptr_t kAlignedBytes = 16;

std::optional<int> CudnnType(DType dtype) {
  if (dtype == DType::kFloat32) return kCudnnFloat;
  if (dtype == DType::kFloat64) return kCudnnDouble;
  if (dtype == DType::kFloat16) return kCudnnHalf;
  if (dtype == DType::kBFloat16) return kCudnnBFloat16;
  return std::nullopt;
}

// Winograd's and FFT's transforms are stored in the dtype of the operands: in a
// half type even sums of small integers come out wrong.
CudnnEngineRules RulesOf(const ConvolutionProblem& p) {
  CudnnEngineRules rules;
  rules.compiled_at_run_time = false;
  rules.most_workspace_bytes = kMaxWorkspaceBytes;
  rules.named = p.algorithm;
  if (p.deterministic) rules.refused_numbers |= kCudnnNondeterministic;
  if (IsHalf(p.dtype) && !p.precision.reduced_sums)
    rules.refused_numbers |= kCudnnFft | kCudnnWinograd | kCudnnReducedSums;
  if (p.dtype == DType::kFloat32 && !p.precision.tf32)
    rules.refused_numbers |= kCudnnTensorCores | kCudnnRoundsOperands;
  return rules;
}

class CudnnConvolution final : public PreparedCall {
 public:
  // `names`: of how many engines it asks for the names.
  CudnnConvolution(std::shared_ptr<Cudnn> library,
                   const ConvolutionProblem& problem, int names = 0)
      : library_(std::move(library)),
        p_(problem),
        written_(WrittenOperand(problem.wanted)),
        names_wanted_(names) {}

  // As the caller's tensors lie, if cuDNN can; else on copies, channels first.
  absl::Status Prepare() {
    ASSIGN_OR_RETURN(const CurrentDevice current,
                     library_->device().MakeCurrent());
    const CudnnLongs image_strides = CudnnStrides(p_, kImageOperand);
    const CudnnFormat natural = image_strides[1] == 1 && p_.image_channels > 1
                                    ? CudnnFormat::kChannelsLast
                                    : CudnnFormat::kChannelsFirst;
    absl::Status status = PrepareOn(natural, /*copy_all=*/false);
    if (!status.ok())
      status = PrepareOn(CudnnFormat::kChannelsFirst, /*copy_all=*/true);
    if (status.ok()) status = PrepareFinish();
    return Annotate(status, Describe(ExternProblem(p_)));
  }

  absl::Status Run(const ExternBuffers& buffers, Stream stream) const override {
    ASSIGN_OR_RETURN(const CurrentDevice current,
                     library_->device().MakeCurrent());
    return Annotate(RunAligned(buffers, stream), Describe(ExternProblem(p_)));
  }

  int64_t workspace_bytes() const override { return room_bytes_; }
  absl::string_view library() const override { return "cuDNN"; }
  std::string algorithm() const override {
    return absl::StrCat(plan_.EngineName(), fused_ ? " with its epilogue" : "");
  }

  // Of a prepared call.
  std::vector<std::string> TakeNames() { return std::move(names_); }

 private:
  // What an engine reads and writes: for sums alone the first three.
  static constexpr int kArrays[] = {kImageOperand, kWeightsOperand,
                                    kResultOperand, kBiasOperand,
                                    kAddedOperand};
  static constexpr size_t kSums = 3;
  using Addresses = std::array<void*, std::size(kArrays)>;

  absl::Span<const int> Arrays() const {
    return absl::MakeConstSpan(kArrays).first(!fused_        ? kSums
                                              : p_.has_added ? kSums + 2
                                                             : kSums + 1);
  }

  // With the epilogue in the engine where one has that, else the sums alone.
  absl::Status PrepareOn(CudnnFormat format, bool copy_all) {
    fused_ = !copy_all && HasEpilogue();
    absl::Status status = BuildOn(format, copy_all);
    if (status.ok() || !fused_) return status;
    fused_ = false;
    return BuildOn(format, copy_all);
  }

  // What engines know: max(sum + added + bias, 0), all of it but what is added.
  bool HasEpilogue() const {
    return p_.wanted == Wanted::kResult && p_.has_bias &&
           p_.activation == Activation::kRelu && p_.dtype != DType::kFloat64 &&
           (!p_.has_added || CudnnSameLayout(CudnnSizes(p_, kAddedOperand),
                                             CudnnStrides(p_, kAddedOperand),
                                             CudnnStrides(p_, kResultOperand)));
  }

  absl::Status BuildOn(CudnnFormat format, bool copy_all) {
    CudnnGraph graph(library_);
    std::array<CudnnGraph::Tensor, std::size(kArrays)> arrays;
    room_bytes_ = 0;
    for (const int i : Arrays()) {
      const CudnnLongs sizes = CudnnSizes(p_, i);
      const CudnnLongs given = CudnnStrides(p_, i);
      const CudnnLongs dense = CudnnDenseStrides(sizes, format);
      // Of weights the engines know formats, not strides.
      const bool is_dense = CudnnSameLayout(sizes, dense, given);
      copied_[i] = !is_dense && (copy_all || i == kWeightsOperand);
      used_[i] = is_dense || copied_[i] ? dense : given;
      starts_[i] = room_bytes_;
      if (copied_[i]) room_bytes_ += BytesOf(sizes);
      arrays[i] = graph.Memory(*CudnnType(p_.dtype), sizes, used_[i]);
      ids_[i] = arrays[i].id;
    }
    const CudnnGraph::Tensor& result = arrays[kResultOperand];
    const CudnnGraph::Tensor sums =
        fused_ ? graph.InsideLike(kCudnnFloat, result) : result;
    graph.Convolve(
        {p_.wanted, p_.dtype == DType::kFloat64 ? kCudnnDouble : kCudnnFloat,
         CudnnSpatial(p_, p_.padding, 0), CudnnSpatial(p_, p_.stride, 1),
         CudnnSpatial(p_, p_.dilation, 1)},
        arrays[kImageOperand], arrays[kWeightsOperand], sums);
    if (fused_) {
      // Engines that are there without a compile know this form alone: without an
      // array to add there is one of factor 0, which is not read.
      if (!p_.has_added) {
        arrays[kAddedOperand] =
            graph.Memory(*CudnnType(p_.dtype), result.sizes, result.strides);
        ids_[kAddedOperand] = arrays[kAddedOperand].id;
      }
      const CudnnGraph::Tensor with_added =
          graph.InsideLike(kCudnnFloat, result);
      const CudnnGraph::Tensor with_bias =
          graph.InsideLike(kCudnnFloat, result);
      graph.AddScaled(sums, arrays[kAddedOperand], p_.has_added ? 1 : 0,
                      {.memory = &with_added});
      graph.Pointwise(CudnnPointwise::kAdd, with_added, arrays[kBiasOperand],
                      {.memory = &with_bias});
      graph.Unary(CudnnPointwise::kRelu, with_bias, {.memory = &result});
    }
    ASSIGN_OR_RETURN(const CudnnHandle handle, CudnnHandle::Borrow(*library_));
    ASSIGN_OR_RETURN(plan_, graph.Build(handle.get(), RulesOf(p_)));
    if (names_wanted_ > 0) {
      ASSIGN_OR_RETURN(names_,
                       graph.Engines(handle.get(), RulesOf(p_), names_wanted_));
    }
    workspace_start_ = room_bytes_;
    room_bytes_ += plan_.workspace_bytes();
    return absl::OkStatus();
  }

  // In whole 256 bytes.
  int64_t BytesOf(const CudnnLongs& sizes) const {
    int64_t bytes = SizeInBytes(p_.dtype);
    for (const int64_t size : sizes) bytes *= size;
    return (bytes + 255) / 256 * 256;
  }

  absl::Status PrepareFinish() {
    if (fused_ ||
        (!p_.has_bias && !p_.has_added && p_.activation == Activation::kNone)) {
      return absl::OkStatus();
    }
    finish_ = std::make_unique<CudnnFinish>(library_, p_);
    return finish_->Prepare(*CudnnType(p_.dtype), used_[written_]);
  }

  // Engines load 16 bytes at a time. What does not begin there is copied, which
  // takes memory of the call's own: tensors of PyTorch's allocator never are.
  absl::Status RunAligned(const ExternBuffers& buffers, Stream stream) const {
    ExternBuffers aligned = buffers;
    Allocator& allocator = library_->device().allocator();
    Addresses own{};
    absl::Status status;
    for (const int i : Arrays()) {
      if (copied_[i] ||
          reinterpret_cast<uintptr_t>(buffers.operand[i]) % kAlignedBytes ==
              0) {
        continue;
      }
      absl::StatusOr<void*> memory = allocator.Allocate(SpanBytes(i), stream);
      status.Update(memory.status());
      if (!status.ok()) break;
      aligned.operand[i] = own[i] = *memory;
      if (i != written_)
        status.Update(Copy(i, buffers.operand[i], CudnnStrides(p_, i), own[i],
                           used_[i], stream));
    }
    if (status.ok()) status = RunWithRoom(aligned, stream);
    for (const int i : Arrays()) {
      if (own[i] == nullptr) continue;
      if (i == written_ && status.ok())
        status = Copy(i, own[i], used_[i], buffers.operand[i],
                      CudnnStrides(p_, i), stream);
      allocator.Free(own[i], SpanBytes(i), stream);
    }
    return status;
  }

  // From an array's first element to its last.
  int64_t SpanBytes(int i) const {
    const CudnnLongs sizes = CudnnSizes(p_, i);
    int64_t last = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
      last += (sizes[d] - 1) * used_[i][d];
    return (last + 1) * SizeInBytes(p_.dtype);
  }

  absl::Status RunWithRoom(const ExternBuffers& buffers, Stream stream) const {
    char* const room = static_cast<char*>(buffers.workspace);
    Addresses at;
    for (const int i : Arrays()) {
      at[i] = copied_[i] ? room + starts_[i] : buffers.operand[i];
      if (copied_[i] && i != written_)
        RETURN_IF_ERROR(Copy(i, buffers.operand[i], CudnnStrides(p_, i), at[i],
                             used_[i], stream));
    }
    {
      ASSIGN_OR_RETURN(const CudnnHandle handle,
                       CudnnHandle::Borrow(*library_));
      RETURN_IF_ERROR(
          library_->Check(library_->functions().cudnnSetStream(
                              handle.get(), static_cast<CUstream>(stream)),
                          "cudnnSetStream"));
      absl::InlinedVector<CudnnBinding, std::size(kArrays)> bindings;
      for (const int i : Arrays()) bindings.push_back({ids_[i], at[i]});
      if (fused_ && !p_.has_added)
        bindings.push_back({ids_[kAddedOperand], at[kResultOperand]});
      RETURN_IF_ERROR(
          plan_.Run(handle.get(), bindings, room + workspace_start_));
      if (finish_ != nullptr) {
        RETURN_IF_ERROR(
            finish_->Run(handle.get(), buffers.operand[kBiasOperand],
                         buffers.operand[kAddedOperand], at[written_]));
      }
    }
    if (!copied_[written_]) return absl::OkStatus();
    return Copy(written_, at[written_], used_[written_],
                buffers.operand[written_], CudnnStrides(p_, written_), stream);
  }

  // Array i from one place to another, each with its strides.
  absl::Status Copy(int i, void* from, const CudnnLongs& from_strides, void* to,
                    const CudnnLongs& to_strides, Stream stream) const {
    const CudnnLongs sizes = CudnnSizes(p_, i);
    const int64_t element = SizeInBytes(p_.dtype);
    return library_->device().Copy({from, element, sizes, from_strides},
                                   {to, element, sizes, to_strides}, stream);
  }

  const std::shared_ptr<Cudnn> library_;
  const ConvolutionProblem p_;
  const int written_;
  const int names_wanted_;
  std::vector<std::string> names_;
  bool fused_ = false;                   // the engine computes the epilogue
  std::unique_ptr<CudnnFinish> finish_;  // what it does not compute
  std::array<CudnnLongs, std::size(kArrays)> used_;   // strides of computing
  std::array<bool, std::size(kArrays)> copied_{};     // not the caller's
  std::array<int64_t, std::size(kArrays)> starts_{};  // of copies, in the room
  std::array<int64_t, std::size(kArrays)> ids_{};     // in the plan
  CudnnPlan plan_;
  int64_t room_bytes_ = 0;
  int64_t workspace_start_ = 0;
};

int64_t ElementsOfResult(const ConvolutionProblem& p) {
  int64_t elements = 1;
  for (const int64_t size : CudnnSizes(p, WrittenOperand(p.wanted)))
    elements *= size;
  return elements;
}

// What is wanted has no elements, or is a sum of none: zeros.
class EmptyConvolution final : public PreparedCall {
 public:
  EmptyConvolution(std::shared_ptr<Cudnn> library,
                   const ConvolutionProblem& problem)
      : library_(std::move(library)), p_(problem) {}
  absl::Status Run(const ExternBuffers& buffers, Stream stream) const override {
    const int64_t elements = ElementsOfResult(p_);
    if (elements == 0) return absl::OkStatus();
    return library_->device().Fill(buffers.operand[WrittenOperand(p_.wanted)],
                                   SizeInBytes(p_.dtype), elements, 0, stream);
  }

  absl::string_view library() const override { return "cuDNN"; }

 private:
  const std::shared_ptr<Cudnn> library_;
  const ConvolutionProblem p_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareCudnnConvolution(
    const ConvolutionProblem& problem, std::shared_ptr<Cudnn> library) {
  if (!CudnnType(problem.dtype) || (problem.activation != Activation::kNone &&
                                    problem.activation != Activation::kRelu)) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(ExternProblem(problem)) + ": not for cuDNN");
  }
  if (IsEmpty(problem) &&
      (!problem.has_bias || ElementsOfResult(problem) == 0)) {
    return std::make_shared<EmptyConvolution>(std::move(library), problem);
  }
  auto call = std::make_shared<CudnnConvolution>(std::move(library), problem);
  RETURN_IF_ERROR(call->Prepare());
  return std::shared_ptr<const PreparedCall>(std::move(call));
}

absl::StatusOr<std::vector<std::string>> CudnnConvolutionAlgorithms(
    const ConvolutionProblem& problem, std::shared_ptr<Cudnn> library,
    int most) {
  if (IsEmpty(problem)) return std::vector<std::string>();
  CudnnConvolution call(std::move(library), problem, most);
  RETURN_IF_ERROR(call.Prepare());
  return call.TakeNames();
}

}  // namespace kiln
