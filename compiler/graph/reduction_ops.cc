// Reductions and scans. Results are contiguous, as eager mode makes them.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;
constexpr auto kDecompose = Handling::kDecompose;

DType SumDType(DType self) { return IsFloat(self) ? self : DType::kInt64; }
DType AnyDType(DType self) {
  return self == DType::kUInt8 ? DType::kUInt8 : DType::kBool;
}

absl::StatusOr<TensorMeta> Reduced(const TensorMeta& self,
                                   const std::vector<int64_t>& dims,
                                   bool keepdim, DType dtype) {
  ASSIGN_OR_RETURN(const std::vector<bool> mask, DimMask(dims, self.rank()));
  DimVector sizes;
  for (int d = 0; d < self.rank(); ++d) {
    if (!mask[d]) {
      sizes.push_back(self.sizes[d]);
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  return ContiguousMeta(dtype, std::move(sizes));
}

// (self, *, dtype)
absl::StatusOr<TensorMetas> InferSumAll(const InferInput& in) {
  return TensorMetas{
      ContiguousMeta(in.dtype(1).value_or(SumDType(in.tensor(0).dtype)), {})};
}
// (self, dim, keepdim, *, dtype)
absl::StatusOr<TensorMetas> InferSumDims(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta,
                   Reduced(self, in.fixed_ints(1), in.flag(2),
                           in.dtype(3).value_or(SumDType(self.dtype))));
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferProdDim(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta,
                   Reduced(self, {in.integer(1)}, in.flag(2),
                           in.dtype(3).value_or(SumDType(self.dtype))));
  return TensorMetas{std::move(meta)};
}

absl::Status CheckMean(const InferInput& in, size_t dtype_at) {
  const DType dtype = in.dtype(dtype_at).value_or(in.tensor(0).dtype);
  if (IsFloat(dtype)) return absl::OkStatus();
  return Malformed(
      absl::StrCat("mean in ", ShortName(dtype), ", expected a float dtype"));
}
absl::StatusOr<TensorMetas> InferMeanAll(const InferInput& in) {
  RETURN_IF_ERROR(CheckMean(in, 1));
  return InferSumAll(in);
}
absl::StatusOr<TensorMetas> InferMeanDims(const InferInput& in) {
  RETURN_IF_ERROR(CheckMean(in, 3));
  return InferSumDims(in);
}

// (self, dim, keepdim)
absl::StatusOr<TensorMetas> InferAmax(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta,
                   Reduced(self, in.fixed_ints(1), in.flag(2), self.dtype));
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferMaxAll(const InferInput& in) {
  return TensorMetas{ContiguousMeta(in.tensor(0).dtype, {})};
}
absl::StatusOr<TensorMetas> InferAnyAll(const InferInput& in) {
  return TensorMetas{ContiguousMeta(AnyDType(in.tensor(0).dtype), {})};
}
absl::StatusOr<TensorMetas> InferAnyDim(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta, Reduced(self, {in.integer(1)}, in.flag(2),
                                            AnyDType(self.dtype)));
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferAnyDims(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta, Reduced(self, in.fixed_ints(1), in.flag(2),
                                            AnyDType(self.dtype)));
  return TensorMetas{std::move(meta)};
}

// max.dim: values and indices.
absl::StatusOr<TensorMetas> InferMaxDim(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta values,
                   Reduced(self, {in.integer(1)}, in.flag(2), self.dtype));
  TensorMeta indices = values;
  indices.dtype = DType::kInt64;
  return TensorMetas{std::move(values), std::move(indices)};
}
absl::StatusOr<TensorMetas> InferArgmax(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  std::vector<int64_t> dims;
  if (in.has(1)) dims.push_back(in.integer(1));
  ASSIGN_OR_RETURN(TensorMeta meta,
                   Reduced(self, dims, in.flag(2), DType::kInt64));
  return TensorMetas{std::move(meta)};
}

// var.correction(self, dim, *, correction, keepdim)
absl::StatusOr<TensorMetas> InferVar(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (!IsFloat(self.dtype)) return Malformed("variance of integers");
  ASSIGN_OR_RETURN(TensorMeta meta,
                   Reduced(self, in.fixed_ints(1), in.flag(3), self.dtype));
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferVarMean(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMetas var, InferVar(in));
  return TensorMetas{var[0], var[0]};
}

// linalg_vector_norm(self, ord, dim, keepdim, *, dtype)
absl::StatusOr<TensorMetas> InferVectorNorm(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta, Reduced(self, in.fixed_ints(2), in.flag(3),
                                            in.dtype(4).value_or(self.dtype)));
  return TensorMetas{std::move(meta)};
}

// norm.ScalarOpt_dim(self, p, dim, keepdim)
absl::StatusOr<TensorMetas> InferNorm(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta,
                   Reduced(self, in.fixed_ints(2), in.flag(3), self.dtype));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferLogSumExp(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(TensorMeta meta,
                   Reduced(self, in.fixed_ints(1), in.flag(2),
                           IsFloat(self.dtype) ? self.dtype : DType::kFloat32));
  return TensorMetas{std::move(meta)};
}

// aminmax(self, *, dim, keepdim)
absl::StatusOr<TensorMetas> InferAminmax(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  std::vector<int64_t> dims;
  if (in.has(1)) dims.push_back(in.integer(1));
  ASSIGN_OR_RETURN(TensorMeta least,
                   Reduced(self, dims, in.flag(2), self.dtype));
  return TensorMetas{least, least};
}

// count_nonzero(self, dim)
absl::StatusOr<TensorMetas> InferCount(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  std::vector<int64_t> dims;
  if (in.has(1) && in.args[1].is_list()) {
    dims = in.fixed_ints(1);
  } else if (in.has(1)) {
    dims.push_back(in.integer(1));
  }
  ASSIGN_OR_RETURN(TensorMeta count,
                   Reduced(self, dims, /*keepdim=*/false, DType::kInt64));
  return TensorMetas{std::move(count)};
}

// cumsum(self, dim, *, dtype)
absl::StatusOr<TensorMetas> InferScan(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  return TensorMetas{
      ContiguousMeta(in.dtype(2).value_or(SumDType(self.dtype)), self.sizes)};
}

// _softmax(self, dim, half_to_float)
absl::StatusOr<TensorMetas> InferSoftmax(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  const bool half_to_float = in.flag(2);
  return TensorMetas{
      ContiguousMeta(half_to_float ? DType::kFloat32 : self.dtype, self.sizes)};
}

// _safe_softmax(self, dim, dtype)
absl::StatusOr<TensorMetas> InferSafeSoftmax(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  return TensorMetas{
      ContiguousMeta(in.dtype(2).value_or(self.dtype), self.sizes)};
}

// _softmax_backward_data(grad_output, output, dim, input_dtype)
absl::StatusOr<TensorMetas> InferSoftmaxBackward(const InferInput& in) {
  const TensorMeta& output = in.tensor(1);
  RETURN_IF_ERROR(WrapDim(in.integer(2), output.rank()).status());
  if (!SameSizes(in.tensor(0).sizes, output.sizes, in.shapes)) {
    return Malformed("gradient and output differ in sizes");
  }
  return TensorMetas{
      ContiguousMeta(in.dtype(3).value_or(output.dtype), output.sizes)};
}

constexpr absl::string_view kSoftmax =
    "(Tensor self, int dim, bool half_to_float) -> Tensor";
constexpr absl::string_view kSoftmaxBackward =
    "(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
    "Tensor";
constexpr absl::string_view kAll =
    "(Tensor self, *, ScalarType? dtype=None) -> Tensor";
constexpr absl::string_view kDims =
    "(Tensor self, int[]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
    "-> Tensor";
constexpr absl::string_view kPlainDims =
    "(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor";
constexpr absl::string_view kOneDim =
    "(Tensor self, int dim, bool keepdim=False) -> Tensor";
constexpr absl::string_view kPair =
    "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor "
    "indices)";
constexpr absl::string_view kVar =
    "(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool "
    "keepdim=False) -> Tensor";
constexpr absl::string_view kVarMean =
    "(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool "
    "keepdim=False) -> (Tensor, Tensor)";
constexpr absl::string_view kScan =
    "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor";

constexpr OpRow kRows[] = {
    {"aten.sum.default", kAll, InferSumAll, kLower},
    {"aten.sum.dim_IntList", kDims, InferSumDims, kLower},
    {"aten.prod.default", kAll, InferSumAll, kLower},
    {"aten.prod.dim_int",
     "(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
     "Tensor",
     InferProdDim, kLower},
    {"aten.nansum.default", kDims, InferSumDims, kDecompose},
    {"aten.aminmax.default",
     "(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, "
     "Tensor max)",
     InferAminmax, kDecompose},
    {"aten.count_nonzero.dim_IntList", "(Tensor self, int[] dim) -> Tensor",
     InferCount, kDecompose},
    {"aten.count_nonzero.default", "(Tensor self, int? dim=None) -> Tensor",
     InferCount, kDecompose},
    {"aten.mean.default", kAll, InferMeanAll, kDecompose},
    {"aten.mean.dim", kDims, InferMeanDims, kDecompose},
    {"aten.amax.default", kPlainDims, InferAmax, kLower},
    {"aten.amin.default", kPlainDims, InferAmax, kLower},
    {"aten.max.default", "(Tensor self) -> Tensor", InferMaxAll, kLower},
    {"aten.min.default", "(Tensor self) -> Tensor", InferMaxAll, kLower},
    {"aten.max.dim", kPair, InferMaxDim, kLower},
    {"aten.min.dim", kPair, InferMaxDim, kLower},
    {"aten.argmax.default",
     "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", InferArgmax,
     kLower},
    {"aten.argmin.default",
     "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", InferArgmax,
     kLower},
    {"aten.any.default", "(Tensor self) -> Tensor", InferAnyAll, kLower},
    {"aten.any.dim", kOneDim, InferAnyDim, kLower},
    {"aten.any.dims",
     "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     InferAnyDims, kLower},
    {"aten.all.default", "(Tensor self) -> Tensor", InferAnyAll, kLower},
    {"aten.all.dim", kOneDim, InferAnyDim, kLower},
    {"aten.all.dims",
     "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     InferAnyDims, kLower},
    {"aten.var.correction", kVar, InferVar, kDecompose},
    {"aten.std.correction", kVar, InferVar, kDecompose},
    {"aten.var_mean.correction", kVarMean, InferVarMean, kDecompose},
    {"aten.std_mean.correction", kVarMean, InferVarMean, kDecompose},
    {"aten.linalg_vector_norm.default",
     "(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     InferVectorNorm, kDecompose},
    {"aten.norm.ScalarOpt_dim",
     "(Tensor self, Scalar? p, int[] dim, bool keepdim=False) -> Tensor",
     InferNorm, kDecompose},
    {"aten.logsumexp.default",
     "(Tensor self, int[] dim, bool keepdim=False) -> Tensor", InferLogSumExp,
     kDecompose},
    {"aten.cumsum.default", kScan, InferScan, kLower, OpRow::Inplace::kYes},
    {"aten.cumprod.default", kScan, InferScan, kLower, OpRow::Inplace::kYes},
    {"aten._softmax.default", kSoftmax, InferSoftmax, kDecompose},
    {"aten._log_softmax.default", kSoftmax, InferSoftmax, kDecompose},
    {"aten._safe_softmax.default",
     "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     InferSafeSoftmax, kDecompose},
    {"aten._softmax_backward_data.default", kSoftmaxBackward,
     InferSoftmaxBackward, kDecompose},
    {"aten._log_softmax_backward_data.default", kSoftmaxBackward,
     InferSoftmaxBackward, kDecompose},
};

}  // namespace

absl::Span<const OpRow> ReductionOps() { return kRows; }

}  // namespace kiln
