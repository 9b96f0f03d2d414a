#include "runtime/extern_kernels/cudnn_graph.h"

#include <utility>

#include "proto/base/status.h"

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

// Descriptors (cudnnBackendDescriptorType_t).
constexpr int kPointwiseKind = 0;
constexpr int kConvolutionKind = 1;
constexpr int kConvolutionForward = 10;
constexpr int kConvolutionOfWeights = 11;
constexpr int kConvolutionOfImage = 12;
constexpr int kPointwiseOperation = 13;
constexpr int kGraphKind = 15;
constexpr int kTensorKind = 17;
constexpr int kMatmulKind = 18;
constexpr int kMatmulOperation = 19;
constexpr int kReduceKind = 21;
constexpr int kReduceOperation = 22;
constexpr int kReshapeOperation = 31;
constexpr int kRandomKind = 32;
constexpr int kRandomOperation = 33;

// Types of attributes (cudnnBackendAttributeType_t).
constexpr int kConvolutionModeType = 7;
constexpr int kNanType = 10;
constexpr int kPointwiseType = 14;
constexpr int kReduceType = 18;
constexpr int kRandomType = 29;

// Attributes (cudnnBackendAttributeName_t).
constexpr int kPointwiseMode = 0, kPointwiseMath = 1, kPointwiseNan = 2,
              kPointwiseAxis = 9;
constexpr int kConvolutionMath = 100, kConvolutionMode = 101,
              kConvolutionDilations = 102, kConvolutionStrides = 103,
              kConvolutionPadsAfter = 104, kConvolutionPadsBefore = 105,
              kConvolutionSpatial = 106;
constexpr int kPointwiseWhat = 750, kPointwiseX = 751, kPointwiseB = 752,
              kPointwiseY = 753, kPointwiseScaleOfB = 755, kPointwiseT = 758;
constexpr int kGraphHandle = 800, kGraphOperations = 801;
constexpr int kTensorAlignment = 900, kTensorElement = 901, kTensorSizes = 902,
              kTensorStrides = 903, kTensorId = 906, kTensorInside = 907,
              kTensorByValue = 908;
constexpr int kMatmulMath = 1500, kMatmulA = 1520, kMatmulB = 1521,
              kMatmulC = 1522, kMatmulWhat = 1523;
constexpr int kReduceOperator = 1600, kReduceMath = 1601, kReduceX = 1610,
              kReduceY = 1611, kReduceWhat = 1612;
constexpr int kReshapeX = 2200, kReshapeY = 2201;
constexpr int kRandomDistribution = 2300, kRandomProbability = 2305,
              kRandomY = 2310, kRandomSeed = 2311, kRandomWhat = 2312,
              kRandomOffset = 2313;

constexpr int kBernoulli = 0;
constexpr int kNanStays = 1;
constexpr int64_t kAlignmentBytes = 16;
constexpr int64_t kNoAxis = -1;

// One operation a product, whose attributes are numbered apart.
struct ConvolutionAttributes {
  int operation;
  int alpha, beta, what, weights, image, result;
};

const ConvolutionAttributes& AttributesOf(Wanted wanted) {
  static constexpr ConvolutionAttributes kForward = {
      kConvolutionForward, 700, 701, 702, 703, 704, 705};
  static constexpr ConvolutionAttributes kImage = {
      kConvolutionOfImage, 706, 707, 708, 709, 710, 711};
  static constexpr ConvolutionAttributes kWeights = {
      kConvolutionOfWeights, 712, 713, 714, 715, 716, 717};
  return wanted == Wanted::kResult  ? kForward
         : wanted == Wanted::kImage ? kImage
                                    : kWeights;
}

CudnnLongs RowMajor(const CudnnLongs& sizes) {
  CudnnLongs strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step *= sizes[d];
  }
  return strides;
}

}  // namespace

CudnnGraph::CudnnGraph(std::shared_ptr<Cudnn> library)
    : library_(std::move(library)) {}

bool CudnnGraph::Check(absl::Status status) {
  status_.Update(std::move(status));
  return status_.ok();
}

CudnnBackend* CudnnGraph::Make(int kind) {
  if (!status_.ok()) return nullptr;
  absl::StatusOr<CudnnBackend> made = CudnnBackend::Create(*library_, kind);
  if (!Check(made.status())) return nullptr;
  descriptors_.push_back(*std::move(made));
  return &descriptors_.back();
}

CudnnGraph::Tensor CudnnGraph::AddTensor(int type, const CudnnLongs& sizes,
                                         const CudnnLongs& strides, Kind kind) {
  Tensor tensor{++last_id_, nullptr, sizes, strides};
  CudnnBackend* const d = Make(kTensorKind);
  if (d == nullptr) return tensor;
  const bool inside = kind == Kind::kInside, by_value = true;
  Check(d->SetEnum(kTensorElement, kCudnnElementType, type));
  Check(d->SetInts(kTensorSizes, sizes));
  Check(d->SetInts(kTensorStrides, strides));
  Check(d->SetInts(kTensorId, {tensor.id}));
  Check(d->SetInts(kTensorAlignment, {kAlignmentBytes}));
  Check(d->Set(kTensorInside, kCudnnBoolType, &inside));
  if (kind == Kind::kScalar)
    Check(d->Set(kTensorByValue, kCudnnBoolType, &by_value));
  Check(d->Finalize());
  tensor.descriptor = d->get();
  return tensor;
}

CudnnGraph::Tensor CudnnGraph::Memory(int type, const CudnnLongs& sizes,
                                      const CudnnLongs& strides) {
  return AddTensor(type, sizes, strides, Kind::kMemory);
}

CudnnGraph::Tensor CudnnGraph::Inside(int type, const CudnnLongs& sizes) {
  return AddTensor(type, sizes, RowMajor(sizes), Kind::kInside);
}

CudnnGraph::Tensor CudnnGraph::InsideLike(int type, const Tensor& like) {
  return AddTensor(type, like.sizes, like.strides, Kind::kInside);
}

CudnnGraph::Tensor CudnnGraph::Scalar(float value) {
  const CudnnLongs one = {1, 1, 1, 1};
  const Tensor tensor = AddTensor(kCudnnFloat, one, one, Kind::kScalar);
  scalars_.push_back({tensor.id, value});
  return tensor;
}

CudnnGraph::Tensor CudnnGraph::AddPointwise(CudnnPointwise mode, int math,
                                            const Tensor& x, const Tensor* b,
                                            const Tensor* t, Into into,
                                            int64_t axis, float b_scale) {
  const Tensor y =
      into.memory != nullptr ? *into.memory : Inside(into.type, x.sizes);
  CudnnBackend* const what = Make(kPointwiseKind);
  CudnnBackend* const operation = Make(kPointwiseOperation);
  if (operation == nullptr) return y;
  Check(what->SetEnum(kPointwiseMode, kPointwiseType, static_cast<int>(mode)));
  Check(what->SetEnum(kPointwiseMath, kCudnnElementType, math));
  if (axis != kNoAxis) Check(what->SetInts(kPointwiseAxis, {axis}));
  if (mode == CudnnPointwise::kRelu)
    Check(what->SetEnum(kPointwiseNan, kNanType, kNanStays));
  if (!Check(what->Finalize())) return y;
  Check(operation->SetDescriptors(kPointwiseWhat, {what->get()}));
  Check(operation->SetDescriptors(kPointwiseX, {x.descriptor}));
  if (b != nullptr)
    Check(operation->SetDescriptors(kPointwiseB, {b->descriptor}));
  if (t != nullptr)
    Check(operation->SetDescriptors(kPointwiseT, {t->descriptor}));
  if (b_scale != 1)
    Check(operation->Set(kPointwiseScaleOfB, kCudnnFloatType, &b_scale));
  Check(operation->SetDescriptors(kPointwiseY, {y.descriptor}));
  Check(operation->Finalize());
  operations_.push_back(operation->get());
  return y;
}

CudnnGraph::Tensor CudnnGraph::Pointwise(CudnnPointwise mode, const Tensor& x,
                                         const Tensor& b, Into into) {
  return AddPointwise(mode, kCudnnFloat, x, &b, nullptr, into, kNoAxis);
}

CudnnGraph::Tensor CudnnGraph::Unary(CudnnPointwise mode, const Tensor& x,
                                     Into into) {
  return AddPointwise(mode, kCudnnFloat, x, nullptr, nullptr, into, kNoAxis);
}

CudnnGraph::Tensor CudnnGraph::AddScaled(const Tensor& x, const Tensor& b,
                                         float scale, Into into) {
  return AddPointwise(CudnnPointwise::kAdd, kCudnnFloat, x, &b, nullptr, into,
                      kNoAxis, scale);
}

CudnnGraph::Tensor CudnnGraph::Index(const Tensor& like, int64_t dimension) {
  return AddPointwise(CudnnPointwise::kIndex, kCudnnFloat, like, nullptr,
                      nullptr, {.type = kCudnnInt32}, dimension);
}

CudnnGraph::Tensor CudnnGraph::SelectWhere(CudnnPointwise compare,
                                           const Tensor& x, const Tensor& b,
                                           const Tensor& yes, float otherwise) {
  const Tensor mask = AddPointwise(compare, kCudnnBoolean, x, &b, nullptr,
                                   {.type = kCudnnBoolean}, kNoAxis);
  const Tensor no = Scalar(otherwise);
  return AddPointwise(CudnnPointwise::kSelect, kCudnnFloat, yes, &no, &mask, {},
                      kNoAxis);
}

CudnnGraph::Tensor CudnnGraph::Matmul(const Tensor& a, const Tensor& b,
                                      const Tensor& into) {
  CudnnBackend* const what = Make(kMatmulKind);
  CudnnBackend* const operation = Make(kMatmulOperation);
  if (operation == nullptr) return into;
  Check(what->SetEnum(kMatmulMath, kCudnnElementType, kCudnnFloat));
  if (!Check(what->Finalize())) return into;
  Check(operation->SetDescriptors(kMatmulA, {a.descriptor}));
  Check(operation->SetDescriptors(kMatmulB, {b.descriptor}));
  Check(operation->SetDescriptors(kMatmulC, {into.descriptor}));
  Check(operation->SetDescriptors(kMatmulWhat, {what->get()}));
  Check(operation->Finalize());
  operations_.push_back(operation->get());
  return into;
}

CudnnGraph::Tensor CudnnGraph::Reduce(CudnnReduce op, const Tensor& x,
                                      const Tensor& into) {
  CudnnBackend* const what = Make(kReduceKind);
  CudnnBackend* const operation = Make(kReduceOperation);
  if (operation == nullptr) return into;
  Check(what->SetEnum(kReduceOperator, kReduceType, static_cast<int>(op)));
  Check(what->SetEnum(kReduceMath, kCudnnElementType, kCudnnFloat));
  if (!Check(what->Finalize())) return into;
  Check(operation->SetDescriptors(kReduceX, {x.descriptor}));
  Check(operation->SetDescriptors(kReduceY, {into.descriptor}));
  Check(operation->SetDescriptors(kReduceWhat, {what->get()}));
  Check(operation->Finalize());
  operations_.push_back(operation->get());
  return into;
}

CudnnGraph::Tensor CudnnGraph::Transpose(const Tensor& x, int type) {
  CudnnLongs sizes = x.sizes, strides = x.strides;
  std::swap(sizes[2], sizes[3]);
  std::swap(strides[2], strides[3]);
  const Tensor y = AddTensor(type, sizes, strides, Kind::kInside);
  CudnnBackend* const operation = Make(kReshapeOperation);
  if (operation == nullptr) return y;
  Check(operation->SetDescriptors(kReshapeX, {x.descriptor}));
  Check(operation->SetDescriptors(kReshapeY, {y.descriptor}));
  Check(operation->Finalize());
  operations_.push_back(operation->get());
  return y;
}

CudnnGraph::Tensor CudnnGraph::Bernoulli(double kept, const Tensor& seed,
                                         const Tensor& offset,
                                         const CudnnLongs& sizes) {
  const Tensor y = Inside(kCudnnFloat, sizes);
  CudnnBackend* const what = Make(kRandomKind);
  CudnnBackend* const operation = Make(kRandomOperation);
  if (operation == nullptr) return y;
  Check(what->SetEnum(kRandomDistribution, kRandomType, kBernoulli));
  Check(what->Set(kRandomProbability, kCudnnDoubleType, &kept));
  if (!Check(what->Finalize())) return y;
  Check(operation->SetDescriptors(kRandomY, {y.descriptor}));
  Check(operation->SetDescriptors(kRandomWhat, {what->get()}));
  Check(operation->SetDescriptors(kRandomSeed, {seed.descriptor}));
  Check(operation->SetDescriptors(kRandomOffset, {offset.descriptor}));
  Check(operation->Finalize());
  operations_.push_back(operation->get());
  return y;
}

CudnnGraph::Tensor CudnnGraph::Convolve(const CudnnWindow& window,
                                        const Tensor& image,
                                        const Tensor& weights,
                                        const Tensor& result) {
  const Tensor& into = window.wanted == Wanted::kResult  ? result
                       : window.wanted == Wanted::kImage ? image
                                                         : weights;
  const ConvolutionAttributes& names = AttributesOf(window.wanted);
  CudnnBackend* const what = Make(kConvolutionKind);
  CudnnBackend* const operation = Make(names.operation);
  if (operation == nullptr) return into;
  const int64_t spatial = static_cast<int64_t>(window.padding.size());
  Check(what->SetEnum(kConvolutionMath, kCudnnElementType, window.math));
  Check(what->SetEnum(kConvolutionMode, kConvolutionModeType,
                      kCudnnCrossCorrelation));
  Check(what->SetInts(kConvolutionSpatial, {spatial}));
  Check(what->SetInts(kConvolutionPadsBefore, window.padding));
  Check(what->SetInts(kConvolutionPadsAfter, window.padding));
  Check(what->SetInts(kConvolutionStrides, window.stride));
  Check(what->SetInts(kConvolutionDilations, window.dilation));
  if (!Check(what->Finalize())) return into;
  Check(operation->SetDescriptors(names.what, {what->get()}));
  Check(operation->SetDescriptors(names.image, {image.descriptor}));
  Check(operation->SetDescriptors(names.weights, {weights.descriptor}));
  Check(operation->SetDescriptors(names.result, {result.descriptor}));
  const double one_twice = 1, zero_twice = 0;
  const float one = 1, zero = 0;
  if (window.math == kCudnnDouble) {
    Check(operation->Set(names.alpha, kCudnnDoubleType, &one_twice));
    Check(operation->Set(names.beta, kCudnnDoubleType, &zero_twice));
  } else {
    Check(operation->Set(names.alpha, kCudnnFloatType, &one));
    Check(operation->Set(names.beta, kCudnnFloatType, &zero));
  }
  Check(operation->Finalize());
  operations_.push_back(operation->get());
  return into;
}

absl::StatusOr<CudnnPlan> CudnnGraph::Build(
    void* handle, const CudnnEngineRules& rules) const {
  ASSIGN_OR_RETURN(CudnnBackend graph, Finalized(handle));
  return CudnnPlan::Make(library_, handle, std::move(graph), rules, scalars_);
}

absl::StatusOr<std::vector<std::string>> CudnnGraph::Engines(
    void* handle, const CudnnEngineRules& rules, int most) const {
  ASSIGN_OR_RETURN(CudnnBackend graph, Finalized(handle));
  return CudnnPlan::Engines(library_, handle, std::move(graph), rules, most);
}

absl::StatusOr<CudnnBackend> CudnnGraph::Finalized(void* handle) const {
  RETURN_IF_ERROR(status_);
  ASSIGN_OR_RETURN(CudnnBackend graph,
                   CudnnBackend::Create(*library_, kGraphKind));
  RETURN_IF_ERROR(graph.Set(kGraphHandle, kCudnnHandleType, &handle));
  RETURN_IF_ERROR(graph.SetDescriptors(kGraphOperations, operations_));
  RETURN_IF_ERROR(graph.Finalize());
  return graph;
}

}  // namespace kiln
