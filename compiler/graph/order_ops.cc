// Sorting, selection by rank, running extremes, search in sorted sequences.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;
constexpr auto kLower = Handling::kLower;

TensorMeta WithDType(TensorMeta meta, DType dtype) {
  meta.dtype = dtype;
  return meta;
}

TensorMetas ValuesAndPlaces(TensorMeta values) {
  TensorMeta places = WithDType(values, DType::kInt64);
  return {std::move(values), std::move(places)};
}

absl::StatusOr<TensorMetas> InferSortAlong(const InferInput& in, size_t dim) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(WrapDim(in.integer(dim), self.rank()).status());
  TensorMeta values;
  values.dtype = self.dtype;
  values.sizes = self.sizes;
  values.strides = LikeStrides(self, MemoryFormat::kPreserve, in.shapes);
  return ValuesAndPlaces(std::move(values));
}
absl::StatusOr<TensorMetas> InferSort(const InferInput& in) {
  return InferSortAlong(in, 1);
}
absl::StatusOr<TensorMetas> InferStableSort(const InferInput& in) {
  return InferSortAlong(in, 2);
}

// topk(self, k, dim, ...)
absl::StatusOr<TensorMetas> InferTopk(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(2), self.rank()));
  const SymExpr& k = in.sym(1);
  const SymExpr size = self.rank() == 0 ? SymExpr(1) : self.sizes[dim];
  if (in.shapes.DecideLt(k, 0, "topk") || in.shapes.DecideLt(size, k, "topk")) {
    return Malformed(
        absl::StrCat("the first ", k.ToString(), " of ", size.ToString()));
  }
  DimVector sizes = self.sizes;
  if (!sizes.empty()) sizes[dim] = k;
  return ValuesAndPlaces(ContiguousMeta(self.dtype, std::move(sizes)));
}

absl::StatusOr<TensorMeta> WithoutDim(const InferInput& in, size_t dim_at,
                                      size_t keepdim_at) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(dim_at), self.rank()));
  DimVector sizes = self.sizes;
  if (!sizes.empty()) {
    if (in.flag(keepdim_at)) {
      sizes[dim] = 1;
    } else {
      sizes.erase(sizes.begin() + dim);
    }
  }
  return ContiguousMeta(self.dtype, std::move(sizes));
}

// kthvalue(self, k, dim, keepdim)
absl::StatusOr<TensorMetas> InferKth(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta values, WithoutDim(in, 2, 3));
  return ValuesAndPlaces(std::move(values));
}
// prims.order(x, count, k, largest, how): of each row of x[M, N] the `count`
// values that `how` names, and where they stood (runtime's extern kernels).
absl::StatusOr<TensorMetas> InferOrder(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  if (x.rank() != 2) return Malformed("order: expected a matrix");
  return ValuesAndPlaces(
      ContiguousMeta(x.dtype, DimVector{x.sizes[0], in.sym(1)}));
}
// prims.sort_rows(x, count, largest): of each row of x[M, N] where its first `count`
// values stand, ascending or descending; as prims.order's "sort".
absl::StatusOr<TensorMetas> InferSortRows(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  if (x.rank() != 2) return Malformed("sort_rows: expected a matrix");
  return TensorMetas{
      ContiguousMeta(DType::kInt64, DimVector{x.sizes[0], in.sym(1)})};
}
// prims.sort_values(x, count, largest): the same with the values, of rows of any
// length.
absl::StatusOr<TensorMetas> InferSortValues(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  if (x.rank() != 2) return Malformed("sort_values: expected a matrix");
  return ValuesAndPlaces(
      ContiguousMeta(x.dtype, DimVector{x.sizes[0], in.sym(1)}));
}
// median.dim(self, dim, keepdim) and mode
absl::StatusOr<TensorMetas> InferMedianDim(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta values, WithoutDim(in, 1, 2));
  return ValuesAndPlaces(std::move(values));
}
absl::StatusOr<TensorMetas> InferMedian(const InferInput& in) {
  return TensorMetas{ContiguousMeta(in.tensor(0).dtype, {})};
}

// cummax(self, dim)
absl::StatusOr<TensorMetas> InferRunningExtreme(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  return ValuesAndPlaces(ContiguousMeta(self.dtype, self.sizes));
}
absl::StatusOr<TensorMetas> InferLogCumSumExp(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  if (!IsFloat(self.dtype))
    return Malformed("integers, expected a float dtype");
  return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
}

DType PlaceType(bool narrow) { return narrow ? DType::kInt32 : DType::kInt64; }

// searchsorted(sorted_sequence, self, *, out_int32, ...)
absl::StatusOr<TensorMetas> InferSearch(const InferInput& in) {
  const TensorMeta& sorted = in.tensor(0);
  DimVector sizes;
  if (in.is_tensor(1)) sizes = in.tensor(1).sizes;
  if (sorted.rank() != 1) {
    bool fits = sorted.rank() == static_cast<int>(sizes.size());
    for (int d = 0; fits && d + 1 < sorted.rank(); ++d) {
      fits = in.shapes.DecideEq(sorted.sizes[d], sizes[d], "searchsorted");
    }
    if (!fits) {
      return Malformed(absl::StrCat("values of sizes ", ToText(sizes), " in ",
                                    ToText(sorted)));
    }
  }
  return TensorMetas{ContiguousMeta(PlaceType(in.flag(2)), std::move(sizes))};
}

// bucketize(self, boundaries, *, out_int32, right)
absl::StatusOr<TensorMetas> InferBucketize(const InferInput& in) {
  if (in.tensor(1).rank() != 1) return Malformed("boundaries: expected rank 1");
  DimVector sizes;
  if (in.is_tensor(0)) sizes = in.tensor(0).sizes;
  return TensorMetas{ContiguousMeta(PlaceType(in.flag(2)), std::move(sizes))};
}

constexpr absl::string_view kExtreme =
    "(Tensor self, int dim) -> (Tensor values, Tensor indices)";
constexpr absl::string_view kMedianDim =
    "(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor "
    "indices)";

constexpr OpRow kRows[] = {
    {"aten.sort.default",
     "(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, "
     "Tensor indices)",
     InferSort, kDecompose},
    {"aten.sort.stable",
     "(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
     "(Tensor values, Tensor indices)",
     InferStableSort, kDecompose},
    {"aten.topk.default",
     "(Tensor self, SymInt k, int dim=-1, bool largest=True, bool "
     "sorted=True) -> (Tensor values, Tensor indices)",
     InferTopk, kDecompose},
    {"aten.kthvalue.default",
     "(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor "
     "values, Tensor indices)",
     InferKth, kDecompose},
    {"prims.sort_rows.default",
     "(Tensor x, SymInt count, bool largest) -> Tensor", InferSortRows, kLower},
    {"prims.sort_values.default",
     "(Tensor x, SymInt count, bool largest) -> (Tensor values, Tensor places)",
     InferSortValues, kLower},
    {"prims.order.default",
     "(Tensor x, SymInt count, SymInt k, bool largest, str how) -> (Tensor "
     "values, Tensor places)",
     InferOrder, Handling::kStep},
    {"aten.median.default", "(Tensor self) -> Tensor", InferMedian, kDecompose},
    {"aten.median.dim", kMedianDim, InferMedianDim, kDecompose},
    {"aten.nanmedian.default", "(Tensor self) -> Tensor", InferMedian,
     kDecompose},
    {"aten.nanmedian.dim", kMedianDim, InferMedianDim, kDecompose},
    {"aten.mode.default",
     "(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
     "indices)",
     InferMedianDim, kDecompose},
    {"aten.cummax.default", kExtreme, InferRunningExtreme, kLower},
    {"aten.cummin.default", kExtreme, InferRunningExtreme, kLower},
    {"aten.logcumsumexp.default", "(Tensor self, int dim) -> Tensor",
     InferLogCumSumExp, kLower},
    {"aten.searchsorted.Tensor",
     "(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool "
     "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
     InferSearch, kDecompose},
    {"aten.searchsorted.Scalar",
     "(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool "
     "right=False, str? side=None, Tensor? sorter=None) -> Tensor",
     InferSearch, kDecompose},
    {"aten.bucketize.Tensor",
     "(Tensor self, Tensor boundaries, *, bool out_int32=False, bool "
     "right=False) -> Tensor",
     InferBucketize, kDecompose},
    {"aten.bucketize.Scalar",
     "(Scalar self, Tensor boundaries, *, bool out_int32=False, bool "
     "right=False) -> Tensor",
     InferBucketize, kDecompose},
};

}  // namespace

absl::Span<const OpRow> OrderOps() { return kRows; }

}  // namespace kiln
