#include "runtime/extern_kernels/cudnn_graph.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Descriptors (cudnnBackendDescriptorType_t).
constexpr int kPointwiseKind = 0;
constexpr int kEngineConfigKind = 3;
constexpr int kHeuristicKind = 4;
constexpr int kPlanKind = 5;
constexpr int kPointwiseOperation = 13;
constexpr int kGraphKind = 15;
constexpr int kPackKind = 16;
constexpr int kTensorKind = 17;
constexpr int kMatmulKind = 18;
constexpr int kMatmulOperation = 19;
constexpr int kReduceKind = 21;
constexpr int kReduceOperation = 22;
constexpr int kReshapeOperation = 31;
constexpr int kRandomKind = 32;
constexpr int kRandomOperation = 33;

// Types of attributes (cudnnBackendAttributeType_t).
constexpr int kHandleType = 0;
constexpr int kElementType = 1;
constexpr int kBoolType = 2;
constexpr int kIntType = 3;
constexpr int kDoubleType = 5;
constexpr int kAddressType = 6;
constexpr int kHeuristicType = 8;
constexpr int kPointwiseType = 14;
constexpr int kDescriptorType = 15;
constexpr int kReduceType = 18;
constexpr int kRandomType = 29;

// Attributes (cudnnBackendAttributeName_t).
constexpr int kPointwiseMode = 0, kPointwiseMath = 1, kPointwiseAxis = 9;
constexpr int kHeuristicMode = 200, kHeuristicGraph = 201,
              kHeuristicResults = 202;
constexpr int kPlanHandle = 400, kPlanEngine = 401, kPlanWorkspace = 402;
constexpr int kPointwiseWhat = 750, kPointwiseX = 751, kPointwiseB = 752,
              kPointwiseY = 753, kPointwiseT = 758;
constexpr int kGraphHandle = 800, kGraphOperations = 801;
constexpr int kTensorAlignment = 900, kTensorElement = 901, kTensorSizes = 902,
              kTensorStrides = 903, kTensorId = 906, kTensorInside = 907,
              kTensorByValue = 908;
constexpr int kPackIds = 1000, kPackAddresses = 1001, kPackWorkspace = 1003;
constexpr int kMatmulMath = 1500, kMatmulA = 1520, kMatmulB = 1521,
              kMatmulC = 1522, kMatmulWhat = 1523;
constexpr int kReduceOperator = 1600, kReduceMath = 1601, kReduceX = 1610,
              kReduceY = 1611, kReduceWhat = 1612;
constexpr int kReshapeX = 2200, kReshapeY = 2201;
constexpr int kRandomDistribution = 2300, kRandomProbability = 2305,
              kRandomY = 2310, kRandomSeed = 2311, kRandomWhat = 2312,
              kRandomOffset = 2313;

constexpr int kBernoulli = 0;
constexpr int kHeuristicA = 3, kHeuristicFallback = 2;
constexpr int64_t kAlignmentBytes = 16;
constexpr int kEnginesAsked = 16;
constexpr int64_t kNoAxis = -1;

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

CudnnBackend::~CudnnBackend() {
  if (descriptor_ != nullptr)
    library_->functions().cudnnBackendDestroyDescriptor(descriptor_);
}

absl::StatusOr<CudnnBackend> CudnnBackend::Create(const Cudnn& library,
                                                  int kind) {
  CudnnDescriptor descriptor = nullptr;
  RETURN_IF_ERROR(library.Check(
      library.functions().cudnnBackendCreateDescriptor(kind, &descriptor),
      absl::StrCat("cudnnBackendCreateDescriptor ", kind)));
  return CudnnBackend(library, descriptor);
}

absl::Status CudnnBackend::Set(int attribute, int type, const void* value,
                               int64_t count) {
  return library_->Check(library_->functions().cudnnBackendSetAttribute(
                             descriptor_, attribute, type, count, value),
                         absl::StrCat("cudnnBackendSetAttribute ", attribute));
}

absl::Status CudnnBackend::SetInts(int attribute,
                                   absl::Span<const int64_t> values) {
  return Set(attribute, kIntType, values.data(),
             static_cast<int64_t>(values.size()));
}

absl::Status CudnnBackend::SetDescriptors(
    int attribute, absl::Span<const CudnnDescriptor> values) {
  return Set(attribute, kDescriptorType, values.data(),
             static_cast<int64_t>(values.size()));
}

absl::Status CudnnBackend::Finalize() {
  const Cudnn::Functions& f = library_->functions();
  const int status = f.cudnnBackendFinalize(descriptor_);
  if (status == 0) return absl::OkStatus();
  std::array<char, 512> words{};
  f.cudnnGetLastErrorString(words.data(), words.size());
  return library_->Check(status,
                         absl::StrCat("cudnnBackendFinalize: ", words.data()));
}

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
  Check(d->SetEnum(kTensorElement, kElementType, type));
  Check(d->SetInts(kTensorSizes, sizes));
  Check(d->SetInts(kTensorStrides, strides));
  Check(d->SetInts(kTensorId, {tensor.id}));
  Check(d->SetInts(kTensorAlignment, {kAlignmentBytes}));
  Check(d->Set(kTensorInside, kBoolType, &inside));
  if (kind == Kind::kScalar)
    Check(d->Set(kTensorByValue, kBoolType, &by_value));
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

CudnnGraph::Tensor CudnnGraph::Scalar(float value) {
  const CudnnLongs one = {1, 1, 1, 1};
  const Tensor tensor = AddTensor(kCudnnFloat, one, one, Kind::kScalar);
  scalars_.push_back(value);
  scalar_bindings_.push_back({tensor.id, &scalars_.back()});
  return tensor;
}

CudnnGraph::Tensor CudnnGraph::AddPointwise(CudnnPointwise mode, int math,
                                            const Tensor& x, const Tensor* b,
                                            const Tensor* t, Into into,
                                            int64_t axis) {
  const Tensor y =
      into.memory != nullptr ? *into.memory : Inside(into.type, x.sizes);
  CudnnBackend* const what = Make(kPointwiseKind);
  CudnnBackend* const operation = Make(kPointwiseOperation);
  if (operation == nullptr) return y;
  Check(what->SetEnum(kPointwiseMode, kPointwiseType, static_cast<int>(mode)));
  Check(what->SetEnum(kPointwiseMath, kElementType, math));
  if (axis != kNoAxis) Check(what->SetInts(kPointwiseAxis, {axis}));
  if (!Check(what->Finalize())) return y;
  Check(operation->SetDescriptors(kPointwiseWhat, {what->get()}));
  Check(operation->SetDescriptors(kPointwiseX, {x.descriptor}));
  if (b != nullptr)
    Check(operation->SetDescriptors(kPointwiseB, {b->descriptor}));
  if (t != nullptr)
    Check(operation->SetDescriptors(kPointwiseT, {t->descriptor}));
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
  Check(what->SetEnum(kMatmulMath, kElementType, kCudnnFloat));
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
  Check(what->SetEnum(kReduceMath, kElementType, kCudnnFloat));
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
  Check(what->Set(kRandomProbability, kDoubleType, &kept));
  if (!Check(what->Finalize())) return y;
  Check(operation->SetDescriptors(kRandomY, {y.descriptor}));
  Check(operation->SetDescriptors(kRandomWhat, {what->get()}));
  Check(operation->SetDescriptors(kRandomSeed, {seed.descriptor}));
  Check(operation->SetDescriptors(kRandomOffset, {offset.descriptor}));
  Check(operation->Finalize());
  operations_.push_back(operation->get());
  return y;
}

absl::Status CudnnGraph::Build(void* handle) {
  RETURN_IF_ERROR(status_);
  ASSIGN_OR_RETURN(graph_, CudnnBackend::Create(*library_, kGraphKind));
  RETURN_IF_ERROR(graph_.Set(kGraphHandle, kHandleType, &handle));
  RETURN_IF_ERROR(graph_.SetDescriptors(kGraphOperations, operations_));
  RETURN_IF_ERROR(graph_.Finalize());
  std::string refusals;
  for (const int mode : {kHeuristicA, kHeuristicFallback}) {
    const absl::Status status = TakeEngine(handle, mode, refusals);
    if (status.ok()) return status;
    if (refusals.empty()) refusals = std::string(status.message());
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("cuDNN has no engine for it: ", refusals));
}

absl::Status CudnnGraph::TakeEngine(void* handle, int mode,
                                    std::string& refusals) {
  ASSIGN_OR_RETURN(CudnnBackend heuristic,
                   CudnnBackend::Create(*library_, kHeuristicKind));
  RETURN_IF_ERROR(heuristic.SetDescriptors(kHeuristicGraph, {graph_.get()}));
  RETURN_IF_ERROR(heuristic.SetEnum(kHeuristicMode, kHeuristicType, mode));
  RETURN_IF_ERROR(heuristic.Finalize());
  std::vector<CudnnDescriptor> raw;
  engines_.clear();
  for (int i = 0; i < kEnginesAsked; ++i) {
    ASSIGN_OR_RETURN(CudnnBackend engine,
                     CudnnBackend::Create(*library_, kEngineConfigKind));
    raw.push_back(engine.get());
    engines_.push_back(std::move(engine));
  }
  int64_t found = 0;
  RETURN_IF_ERROR(
      library_->Check(library_->functions().cudnnBackendGetAttribute(
                          heuristic.get(), kHeuristicResults, kDescriptorType,
                          kEnginesAsked, &found, raw.data()),
                      "cudnnBackendGetAttribute: engines"));
  for (int64_t i = 0; i < std::min<int64_t>(found, kEnginesAsked); ++i) {
    const absl::Status status = MakePlan(handle, raw[i]);
    if (status.ok()) return status;
    absl::StrAppend(&refusals, refusals.empty() ? "" : "; ", status.message());
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("none of ", found, " engines"));
}

absl::Status CudnnGraph::MakePlan(void* handle, CudnnDescriptor engine) {
  ASSIGN_OR_RETURN(CudnnBackend plan,
                   CudnnBackend::Create(*library_, kPlanKind));
  RETURN_IF_ERROR(plan.Set(kPlanHandle, kHandleType, &handle));
  RETURN_IF_ERROR(plan.SetDescriptors(kPlanEngine, {engine}));
  RETURN_IF_ERROR(plan.Finalize());
  int64_t count = 0;
  RETURN_IF_ERROR(library_->Check(
      library_->functions().cudnnBackendGetAttribute(
          plan.get(), kPlanWorkspace, kIntType, 1, &count, &workspace_bytes_),
      "cudnnBackendGetAttribute: workspace"));
  plan_ = std::move(plan);
  return absl::OkStatus();
}

absl::Status CudnnGraph::Run(void* handle, absl::Span<const Binding> bindings,
                             void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> addresses;
  for (const auto& all : {absl::MakeConstSpan(scalar_bindings_), bindings}) {
    for (const Binding& binding : all) {
      ids.push_back(binding.id);
      addresses.push_back(binding.address);
    }
  }
  ASSIGN_OR_RETURN(CudnnBackend pack,
                   CudnnBackend::Create(*library_, kPackKind));
  RETURN_IF_ERROR(pack.SetInts(kPackIds, ids));
  RETURN_IF_ERROR(pack.Set(kPackAddresses, kAddressType, addresses.data(),
                           static_cast<int64_t>(addresses.size())));
  RETURN_IF_ERROR(pack.Set(kPackWorkspace, kAddressType, &workspace));
  RETURN_IF_ERROR(pack.Finalize());
  return library_->Check(library_->functions().cudnnBackendExecute(
                             handle, plan_.get(), pack.get()),
                         "cudnnBackendExecute");
}

}  // namespace kiln
