#include "runtime/extern_kernels/cublaslt.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/cublaslt_api.h"
#include "runtime/extern_kernels/matrix_form.h"
#include "runtime/shared_library.h"

namespace kiln {
namespace {

// What an algorithm may ask for: 32 MiB is NVIDIA's advice for sm_90.
constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;

// If all addresses of a call are multiples of this, it takes the algorithm that was
// chosen for aligned matrices.
constexpr uint32_t kWideAlignment = 16;

std::optional<int> CudaType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return kCudaReal32F;
    case DType::kFloat64:
      return kCudaReal64F;
    case DType::kFloat16:
      return kCudaReal16F;
    case DType::kBFloat16:
      return kCudaReal16BF;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return std::nullopt;
  }
  return std::nullopt;
}

uint32_t EpilogueOf(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return kLtEpilogueDefault;
    case Activation::kRelu:
      return kLtEpilogueRelu;
    case Activation::kGeluTanh:
      return kLtEpilogueGelu;
  }
  return kLtEpilogueDefault;
}

int ComputeType(const MatmulProblem& p) {
  if (p.dtype == DType::kFloat64) return kCublasCompute64F;
  return p.dtype == DType::kFloat32 && p.precision.tf32
             ? kCublasCompute32FFastTf32
             : kCublasCompute32F;
}

// A sum of a half type that is cut along K must not round its parts to that
// type: where they are larger than the result the error is many times half an
// ulp of it.
uint32_t ReductionSchemes(const MatmulProblem& p) {
  return IsHalf(p.dtype) && !p.precision.reduced_sums
             ? kLtReduceInComputeType
             : kLtReduceInPlace | kLtReduceInComputeType |
                   kLtReduceInOutputType;
}

// A named algorithm is looked for among this many of the heuristic's.
constexpr int kMostAlgorithms = 64;

// The attributes that tell algorithms apart, in the order of their names.
struct LtConfigWord {
  absl::string_view name;
  int attribute;
  size_t bytes;
};
constexpr LtConfigWord kLtConfigWords[] = {{"id", kLtConfigId, 4},
                                           {"tile", kLtConfigTile, 4},
                                           {"stages", kLtConfigStages, 4},
                                           {"split", kLtConfigSplit, 4},
                                           {"reduce", kLtConfigReduction, 4},
                                           {"swizzle", kLtConfigSwizzle, 4},
                                           {"custom", kLtConfigCustom, 4},
                                           {"inner", kLtConfigInner, 2},
                                           {"cluster", kLtConfigCluster, 2}};

// How the bias comes in.
enum class BiasBy {
  kNothing,   // there is none
  kEpilogue,  // one row for all, beta 1
  kMatrix,    // C of the library's own formula
  kCopy,      // copied into the result, which then is C
};

// From row to row. A single row may have any stride.
int64_t GeluInputStride(const MatmulProblem& p) {
  return p.m == 1 ? p.n : p.gelu_input.row;
}

// The library's matrices are stored column by column, so it is told of
// out^T = b^T @ a^T: its A is our b, its B is our a.
class LtMatmul final : public PreparedCall {
 public:
  LtMatmul(std::shared_ptr<const CublasLt> library, const BlasMatmul& blas)
      : library_(std::move(library)), blas_(blas), p_(blas_.problem) {}

  absl::Status Prepare() {
    ASSIGN_OR_RETURN(const CurrentDevice current,
                     library_->device().MakeCurrent());
    ChooseBias();
    alpha_.single = static_cast<float>(p_.alpha);
    beta_.single = reads_c() ? static_cast<float>(p_.beta) : 0.0f;
    if (p_.dtype == DType::kFloat64) {
      alpha_.twice = p_.alpha;
      beta_.twice = reads_c() ? p_.beta : 0.0;
    }
    if (IsEmpty() || p_.k == 0) return absl::OkStatus();
    RETURN_IF_ERROR(DescribeMatmul());
    RETURN_IF_ERROR(DescribeLayout(p_.k, p_.n, blas_.b, p_.b.batch, b_));
    RETURN_IF_ERROR(DescribeLayout(p_.m, p_.k, blas_.a, p_.a.batch, a_));
    RETURN_IF_ERROR(DescribeLayout(p_.m, p_.n, blas_.out, p_.out.batch, out_));
    const BlasMatrix c = bias_by_ == BiasBy::kMatrix
                             ? BlasMatrix{false, p_.bias.row}
                             : blas_.out;
    RETURN_IF_ERROR(DescribeLayout(
        p_.m, p_.n, c,
        bias_by_ == BiasBy::kMatrix ? p_.bias.batch : p_.out.batch, c_));
    RETURN_IF_ERROR(ChooseAlgorithm(kWideAlignment, wide_));
    if (p_.has_gelu_input) return absl::OkStatus();
    return ChooseAlgorithm(static_cast<uint32_t>(SizeInBytes(p_.dtype)),
                           narrow_);
  }

  absl::Status Run(const ExternBuffers& buffers, Stream stream) const override {
    if (IsEmpty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const CurrentDevice current,
                     library_->device().MakeCurrent());
    const void* a = buffers.operand[0];
    const void* b = buffers.operand[1];
    const void* const bias = buffers.operand[2];
    void* const out = buffers.operand[3];
    if (blas_.swapped) std::swap(a, b);
    if (p_.k == 0) return RunEmptySum(bias, out, stream);
    if (bias_by_ == BiasBy::kCopy) {
      RETURN_IF_ERROR(CopyBias(bias, out, stream));
    }
    const void* const c = bias_by_ == BiasBy::kMatrix ? bias : out;
    LtMatmulDescription matmul = matmul_;  // its own: calls may overlap
    if (bias_by_ == BiasBy::kEpilogue) {
      RETURN_IF_ERROR(Set(matmul, kLtDescBiasPointer, bias));
    }
    if (p_.has_gelu_input)
      RETURN_IF_ERROR(Set(matmul, kLtDescEpilogueInput, bias));
    const bool wide = (Low(a) | Low(b) | Low(c) | Low(out) | Low(bias)) == 0;
    if (p_.has_gelu_input && !wide) {
      return MakeError(ErrorReason::kGuardFailed,
                       absl::StrCat(Describe(ExternProblem(p_)),
                                    ": an address is no multiple of ",
                                    kWideAlignment, " bytes"));
    }
    const LtHeuristicResult& chosen = wide ? wide_ : narrow_;
    const absl::Status status = library_->Check(
        library_->functions().cublasLtMatmul(
            library_->handle(), &matmul, &alpha_, b, &b_, a, &a_, &beta_, c,
            &c_, out, &out_, &chosen.algorithm, buffers.workspace,
            chosen.workspace_bytes, static_cast<CUstream>(stream)),
        "cublasLtMatmul");
    return Annotate(status, Describe(ExternProblem(p_)));
  }

  int64_t workspace_bytes() const override {
    return static_cast<int64_t>(
        std::max(wide_.workspace_bytes, narrow_.workspace_bytes));
  }
  absl::string_view library() const override { return "cuBLASLt"; }
  std::string algorithm() const override {
    return IsEmpty() || p_.k == 0 ? "" : NameOf(wide_.algorithm).value_or("");
  }

  // Of a prepared call. Empty products have none.
  absl::StatusOr<std::vector<std::string>> Algorithms(int most) const {
    std::vector<std::string> names;
    if (IsEmpty() || p_.k == 0) return names;
    ASSIGN_OR_RETURN(
        const std::vector<LtHeuristicResult> found,
        AskHeuristic(kWideAlignment, std::min(most, kMostAlgorithms)));
    for (const LtHeuristicResult& result : found) {
      ASSIGN_OR_RETURN(std::string name, NameOf(result.algorithm));
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
    return names;
  }

 private:
  union Scale {
    float single;
    double twice;
  };

  static uintptr_t Low(const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kWideAlignment;
  }

  bool IsEmpty() const { return p_.m == 0 || p_.n == 0 || p_.batch == 0; }
  bool reads_c() const {
    return bias_by_ == BiasBy::kMatrix || bias_by_ == BiasBy::kCopy;
  }

  void ChooseBias() {
    if (!p_.has_bias) return;
    const MatrixStrides& s = p_.bias;
    const bool one_row = (s.row == 0 || p_.m == 1) && s.column == 1;
    if (one_row && p_.beta == 1 && p_.dtype != DType::kFloat64) {
      bias_by_ = BiasBy::kEpilogue;
    } else if (s.column == 1 && s.row >= p_.n && p_.dtype != DType::kFloat64) {
      bias_by_ = BiasBy::kMatrix;
    } else {
      bias_by_ = BiasBy::kCopy;
    }
  }

  template <typename Value>
  absl::Status Set(LtMatmulDescription& matmul, int attribute,
                   const Value& value) const {
    return library_->Check(library_->functions().cublasLtMatmulDescSetAttribute(
                               &matmul, attribute, &value, sizeof(value)),
                           "cublasLtMatmulDescSetAttribute");
  }

  template <typename Value>
  absl::Status Prefer(LtPreference& preference, int attribute,
                      const Value& value) const {
    return library_->Check(
        library_->functions().cublasLtMatmulPreferenceSetAttribute(
            &preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  }

  absl::Status DescribeMatmul() {
    const bool twice = p_.dtype == DType::kFloat64;
    RETURN_IF_ERROR(
        library_->Check(library_->functions().cublasLtMatmulDescInit_internal(
                            &matmul_, sizeof(matmul_), ComputeType(p_),
                            twice ? kCudaReal64F : kCudaReal32F),
                        "cublasLtMatmulDescInit"));
    RETURN_IF_ERROR(
        Set(matmul_, kLtDescTransposeA, int32_t{blas_.b.transposed}));
    RETURN_IF_ERROR(
        Set(matmul_, kLtDescTransposeB, int32_t{blas_.a.transposed}));
    uint32_t epilogue = EpilogueOf(p_.activation);
    // The heuristic looks at a pointer's alignment only.
    const void* const somewhere = reinterpret_cast<const void*>(256);
    if (p_.has_gelu_input) {
      epilogue = kLtEpilogueGeluGradient;
      RETURN_IF_ERROR(Set(matmul_, kLtDescEpilogueInput, somewhere));
      RETURN_IF_ERROR(
          Set(matmul_, kLtDescEpilogueInputStride, GeluInputStride(p_)));
    }
    if (bias_by_ == BiasBy::kEpilogue) {
      epilogue = epilogue == kLtEpilogueDefault ? kLtEpilogueBias
                                                : epilogue | kLtEpilogueBias;
      RETURN_IF_ERROR(Set(matmul_, kLtDescBiasPointer, somewhere));
      RETURN_IF_ERROR(
          Set(matmul_, kLtDescBiasType, int32_t{*CudaType(p_.dtype)}));
      if (p_.batch > 1) {
        RETURN_IF_ERROR(Set(matmul_, kLtDescBiasBatchStride, p_.bias.batch));
      }
    }
    return Set(matmul_, kLtDescEpilogue, epilogue);
  }

  // A matrix of ours is stored row by row, or ('T') column by column: to the
  // library that is its transpose, column by column, or itself.
  absl::Status DescribeLayout(int64_t rows, int64_t columns,
                              const BlasMatrix& matrix, int64_t batch_stride,
                              LtMatrixLayout& layout) const {
    const CublasLt::Functions& f = library_->functions();
    if (!matrix.transposed) std::swap(rows, columns);
    RETURN_IF_ERROR(library_->Check(
        f.cublasLtMatrixLayoutInit_internal(&layout, sizeof(layout),
                                            *CudaType(p_.dtype), rows, columns,
                                            matrix.leading),
        "cublasLtMatrixLayoutInit"));
    if (p_.batch == 1) return absl::OkStatus();
    const int32_t count = static_cast<int32_t>(p_.batch);
    RETURN_IF_ERROR(library_->Check(
        f.cublasLtMatrixLayoutSetAttribute(&layout, kLtLayoutBatchCount, &count,
                                           sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute"));
    return library_->Check(
        f.cublasLtMatrixLayoutSetAttribute(&layout, kLtLayoutBatchStride,
                                           &batch_stride, sizeof(batch_stride)),
        "cublasLtMatrixLayoutSetAttribute");
  }

  // The algorithm that the problem names, or the heuristic's first.
  absl::Status ChooseAlgorithm(uint32_t alignment,
                               LtHeuristicResult& chosen) const {
    const bool named = !p_.algorithm.empty();
    ASSIGN_OR_RETURN(const std::vector<LtHeuristicResult> found,
                     AskHeuristic(alignment, named ? kMostAlgorithms : 1));
    chosen = found[0];
    for (size_t i = 0; named && i < found.size(); ++i) {
      ASSIGN_OR_RETURN(const std::string name, NameOf(found[i].algorithm));
      if (name != p_.algorithm) continue;
      chosen = found[i];
      break;
    }
    return absl::OkStatus();
  }

  // One at least.
  absl::StatusOr<std::vector<LtHeuristicResult>> AskHeuristic(
      uint32_t alignment, int most) const {
    const CublasLt::Functions& f = library_->functions();
    LtPreference preference;
    RETURN_IF_ERROR(library_->Check(f.cublasLtMatmulPreferenceInit_internal(
                                        &preference, sizeof(preference)),
                                    "cublasLtMatmulPreferenceInit"));
    RETURN_IF_ERROR(
        Prefer(preference, kLtPreferWorkspaceBytes, kMaxWorkspaceBytes));
    RETURN_IF_ERROR(
        Prefer(preference, kLtPreferReductionSchemes, ReductionSchemes(p_)));
    for (const int attribute : kLtPreferAlignment) {
      RETURN_IF_ERROR(Prefer(preference, attribute, alignment));
    }
    std::vector<LtHeuristicResult> results(most);
    int found = 0;
    const int status = f.cublasLtMatmulAlgoGetHeuristic(
        library_->handle(), &matmul_, &b_, &a_, &c_, &out_, &preference, most,
        results.data(), &found);
    results.resize(status == 0 ? found : 0);
    std::erase_if(results,
                  [](const LtHeuristicResult& r) { return r.state != 0; });
    if (results.empty()) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(Describe(ExternProblem(p_)),
                                    ": cuBLASLt has no algorithm for it (",
                                    f.cublasLtGetStatusName(status), ")"));
    }
    return results;
  }

  absl::StatusOr<std::string> NameOf(const LtAlgorithm& algorithm) const {
    std::string name;
    for (const LtConfigWord& word : kLtConfigWords) {
      uint32_t value = 0;  // the library's machine is little-endian
      size_t written = 0;
      RETURN_IF_ERROR(library_->Check(
          library_->functions().cublasLtMatmulAlgoConfigGetAttribute(
              &algorithm, word.attribute, &value, word.bytes, &written),
          "cublasLtMatmulAlgoConfigGetAttribute"));
      absl::StrAppend(&name, name.empty() ? "" : ".", word.name, value);
    }
    return name;
  }

  // The bias spread over the result.
  absl::Status CopyBias(const void* bias, void* out, Stream stream) const {
    const int64_t sizes[] = {p_.batch, p_.m, p_.n};
    const int64_t from[] = {p_.bias.batch, p_.bias.row, p_.bias.column};
    const int64_t to[] = {p_.out.batch, blas_.out.leading, 1};
    const int64_t element = SizeInBytes(p_.dtype);
    return library_->device().Copy(
        {const_cast<void*>(bias), element, sizes, from},
        {out, element, sizes, to}, stream);
  }

  // K = 0: beta * bias, or zeros.
  absl::Status RunEmptySum(const void* bias, void* out, Stream stream) const {
    if (p_.has_bias && p_.beta == 1) return CopyBias(bias, out, stream);
    const int64_t elements = p_.batch * p_.m * p_.n;
    const bool dense = (p_.m == 1 || blas_.out.leading == p_.n) &&
                       (p_.batch == 1 || p_.out.batch == p_.m * p_.n);
    if (p_.has_bias || !dense) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(Describe(ExternProblem(p_)),
                                    ": an empty sum with a scaled bias, or "
                                    "into a result with gaps"));
    }
    return library_->device().Fill(out, SizeInBytes(p_.dtype), elements, 0,
                                   stream);
  }

  const std::shared_ptr<const CublasLt> library_;
  const BlasMatmul blas_;
  const MatmulProblem& p_;  // of blas_
  BiasBy bias_by_ = BiasBy::kNothing;
  Scale alpha_{};
  Scale beta_{};
  LtMatmulDescription matmul_{};
  LtMatrixLayout a_{};
  LtMatrixLayout b_{};
  LtMatrixLayout c_{};
  LtMatrixLayout out_{};
  LtHeuristicResult wide_{};
  LtHeuristicResult narrow_{};
};

// Whether the library's epilogue can multiply with the gradient of a gelu.
bool HasGeluGradient(const BlasMatmul& blas) {
  const MatmulProblem& p = blas.problem;
  constexpr int64_t kVector = 8;
  return IsHalf(p.dtype) && p.batch == 1 && p.k > 0 && !p.has_bias &&
         p.gelu_input.column == 1 && GeluInputStride(p) >= p.n &&
         (p.n | GeluInputStride(p) | blas.a.leading | blas.b.leading |
          blas.out.leading) %
                 kVector ==
             0;
}

absl::StatusOr<std::shared_ptr<const LtMatmul>> PrepareCall(
    std::shared_ptr<const CublasLt> library, const MatmulProblem& problem) {
  const std::optional<BlasMatmul> blas = ToBlas(problem);
  const bool activated_double = problem.dtype == DType::kFloat64 &&
                                problem.activation != Activation::kNone;
  if (!blas || !CudaType(problem.dtype) || activated_double ||
      (problem.has_gelu_input && !HasGeluGradient(*blas))) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(ExternProblem(problem)) + ": not for cuBLASLt");
  }
  auto call = std::make_shared<LtMatmul>(std::move(library), *blas);
  RETURN_IF_ERROR(call->Prepare());
  return std::shared_ptr<const LtMatmul>(std::move(call));
}

}  // namespace

CublasLt::CublasLt(std::shared_ptr<CudaDevice> device)
    : device_(std::move(device)), functions_(std::make_unique<Functions>()) {}

CublasLt::~CublasLt() {
  if (handle_ == nullptr) return;
  const absl::StatusOr<CurrentDevice> current = device_->MakeCurrent();
  if (current.ok()) functions_->cublasLtDestroy(handle_);
}

absl::StatusOr<std::shared_ptr<const CublasLt>> CublasLt::Open(
    std::shared_ptr<CudaDevice> device,
    const std::vector<std::string>& folders) {
  ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open({"libcublasLt.so.13", "libcublasLt.so.12"}, folders));
  std::shared_ptr<CublasLt> opened(new CublasLt(std::move(device)));
  Functions& f = *opened->functions_;
#define KILN_LT_FIND(name) RETURN_IF_ERROR(library.Find(#name, f.name))
  KILN_LT_FIND(cublasLtCreate);
  KILN_LT_FIND(cublasLtDestroy);
  KILN_LT_FIND(cublasLtGetStatusName);
  KILN_LT_FIND(cublasLtMatmulDescInit_internal);
  KILN_LT_FIND(cublasLtMatrixLayoutInit_internal);
  KILN_LT_FIND(cublasLtMatmulPreferenceInit_internal);
  KILN_LT_FIND(cublasLtMatmulDescSetAttribute);
  KILN_LT_FIND(cublasLtMatrixLayoutSetAttribute);
  KILN_LT_FIND(cublasLtMatmulPreferenceSetAttribute);
  KILN_LT_FIND(cublasLtMatmulAlgoGetHeuristic);
  KILN_LT_FIND(cublasLtMatmulAlgoConfigGetAttribute);
  KILN_LT_FIND(cublasLtMatmul);
#undef KILN_LT_FIND
  ASSIGN_OR_RETURN(const CurrentDevice current, opened->device_->MakeCurrent());
  RETURN_IF_ERROR(
      opened->Check(f.cublasLtCreate(&opened->handle_), "cublasLtCreate"));
  return std::shared_ptr<const CublasLt>(std::move(opened));
}

absl::Status CublasLt::Check(int status, absl::string_view call) const {
  if (status == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(call, ": ", functions_->cublasLtGetStatusName(status)));
}

absl::StatusOr<std::shared_ptr<const PreparedCall>> CublasLt::Prepare(
    std::shared_ptr<const CublasLt> library, const MatmulProblem& problem) {
  return PrepareCall(std::move(library), problem);
}

absl::StatusOr<std::vector<std::string>> CublasLt::Algorithms(
    std::shared_ptr<const CublasLt> library, const MatmulProblem& problem,
    int most) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const LtMatmul> call,
                   PrepareCall(std::move(library), problem));
  return call->Algorithms(most);
}

}  // namespace kiln
