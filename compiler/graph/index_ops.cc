// Reads and writes at indices that are data.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "compiler/graph/type_promotion.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;
constexpr auto kInplace = OpRow::Inplace::kYes;

bool IsIndex(DType d) { return d == DType::kInt64 || d == DType::kInt32; }

// An empty index may be of any integers, as in PyTorch.
absl::Status CheckIndex(const TensorMeta& index) {
  if (IsIndex(index.dtype)) return absl::OkStatus();
  if (IsInteger(index.dtype) && index.numel().Is(0)) return absl::OkStatus();
  return Malformed(
      absl::StrCat("index ", ToText(index), ", expected i64 or i32"));
}

// The result keeps the layout of `self`, as its clone would.
TensorMetas LikeSelf(const InferInput& in) {
  return {MetaLike(in.tensor(0), in.shapes)};
}

// embedding(weight, indices, ...)
absl::StatusOr<TensorMetas> InferEmbedding(const InferInput& in) {
  const TensorMeta& weight = in.tensor(0);
  const TensorMeta& indices = in.tensor(1);
  RETURN_IF_ERROR(CheckIndex(indices));
  if (weight.rank() != 2) {
    return Malformed(
        absl::StrCat("weight ", ToText(weight), ", expected rank 2"));
  }
  DimVector sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  return TensorMetas{ContiguousMeta(weight.dtype, std::move(sizes))};
}

// embedding_dense_backward(grad_output, indices, num_weights, ...)
absl::StatusOr<TensorMetas> InferEmbeddingBackward(const InferInput& in) {
  const TensorMeta& grad = in.tensor(0);
  RETURN_IF_ERROR(CheckIndex(in.tensor(1)));
  if (grad.rank() < 1) return Malformed("gradient of rank 0");
  return TensorMetas{
      ContiguousMeta(grad.dtype, {in.sym(2), grad.sizes.back()})};
}

struct IndexPlan {
  int first = -1;        // dimension of the first index
  bool adjacent = true;  // indices stand side by side
  int count = 0;
  DimVector broadcast;  // sizes of all indices together
};

absl::StatusOr<IndexPlan> PlanIndices(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const Argument::List& indices = in.args[1].list();
  if (static_cast<int>(indices.size()) > self.rank()) {
    return Malformed(
        absl::StrCat(indices.size(), " indices into ", ToText(self)));
  }
  IndexPlan plan;
  absl::InlinedVector<const DimVector*, 4> sizes;
  int last = -1;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d].is_none()) continue;
    const TensorMeta& index = in.meta_of(indices[d]);
    if (index.dtype == DType::kBool || index.dtype == DType::kUInt8) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       "index by a mask: sizes that depend on data");
    }
    RETURN_IF_ERROR(CheckIndex(index));
    sizes.push_back(&index.sizes);
    if (plan.first < 0) plan.first = static_cast<int>(d);
    if (last >= 0 && last + 1 != static_cast<int>(d)) plan.adjacent = false;
    last = static_cast<int>(d);
    ++plan.count;
  }
  if (plan.count == 0) return Malformed("no index at all");
  ASSIGN_OR_RETURN(plan.broadcast, BroadcastSizes(sizes, in.shapes));
  return plan;
}

// What the indices pick of self. Dimensions that are indexed become those of
// the indices; they stand where the first was when side by side, else in front.
struct Picked {
  DimVector sizes, self_strides;
  size_t at;  // where the dimensions of the indices stand
};

Picked PickedBy(const IndexPlan& plan, const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const Argument::List& indices = in.args[1].list();
  Picked picked;
  picked.at = plan.adjacent ? plan.first : 0;
  const auto put_indices = [&] {
    for (const SymExpr& size : plan.broadcast) {
      picked.sizes.push_back(size);
      picked.self_strides.push_back(0);
    }
  };
  if (picked.at == 0) put_indices();
  for (int d = 0; d < self.rank(); ++d) {
    const bool indexed =
        d < static_cast<int>(indices.size()) && !indices[d].is_none();
    if (indexed) {
      if (picked.at > 0 && d == plan.first) put_indices();
      continue;
    }
    picked.sizes.push_back(self.sizes[d]);
    picked.self_strides.push_back(self.strides[d]);
  }
  return picked;
}

// index.Tensor(self, indices).
absl::StatusOr<TensorMetas> InferIndex(const InferInput& in) {
  ASSIGN_OR_RETURN(const IndexPlan plan, PlanIndices(in));
  Picked picked = PickedBy(plan, in);
  std::vector<DimVector> operands = {std::move(picked.self_strides)};
  for (const Argument& index : in.args[1].list()) {
    if (index.is_none()) continue;
    const TensorMeta& meta = in.meta_of(index);
    DimVector strides(picked.sizes.size(), 0);
    const size_t shift = picked.at + plan.broadcast.size() - meta.sizes.size();
    for (size_t d = 0; d < meta.sizes.size(); ++d) {
      if (!in.shapes.KnownOne(meta.sizes[d]))
        strides[shift + d] = meta.strides[d];
    }
    operands.push_back(std::move(strides));
  }
  TensorMeta meta;
  meta.dtype = in.tensor(0).dtype;
  meta.strides = IterationStrides(picked.sizes, operands, in.shapes);
  meta.sizes = std::move(picked.sizes);
  return TensorMetas{std::move(meta)};
}

// index_put(self, indices, values): values go with what the indices pick.
absl::StatusOr<TensorMetas> InferIndexPut(const InferInput& in) {
  ASSIGN_OR_RETURN(const IndexPlan plan, PlanIndices(in));
  const DimVector due = PickedBy(plan, in).sizes;
  const DimVector& values = in.tensor(2).sizes;
  ASSIGN_OR_RETURN(const DimVector sizes,
                   BroadcastSizes({&due, &values}, in.shapes));
  if (!SameSizes(sizes, due, in.shapes)) {
    return Malformed(absl::StrCat("values ", ToText(in.tensor(2)),
                                  ", expected ", ToText(due)));
  }
  return LikeSelf(in);
}

absl::StatusOr<TensorMetas> InferIndexSelect(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const TensorMeta& index = in.tensor(2);
  RETURN_IF_ERROR(CheckIndex(index));
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank()));
  if (index.rank() > 1) return Malformed("index of rank above 1");
  DimVector sizes = self.sizes;
  if (!sizes.empty()) sizes[dim] = index.numel();
  return TensorMetas{ContiguousMeta(self.dtype, std::move(sizes))};
}

// gather(self, dim, index)
absl::StatusOr<TensorMetas> InferGather(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const TensorMeta& index = in.tensor(2);
  RETURN_IF_ERROR(CheckIndex(index));
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  // An empty index may have any rank, as in PyTorch.
  if (std::max(index.rank(), 1) != std::max(self.rank(), 1) &&
      !index.numel().Is(0)) {
    return Malformed(
        absl::StrCat("index ", ToText(index), " into ", ToText(self)));
  }
  return TensorMetas{ContiguousMeta(self.dtype, index.sizes)};
}

// scatter(self, dim, index, ...)
absl::StatusOr<TensorMetas> InferScatter(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const TensorMeta& index = in.tensor(2);
  RETURN_IF_ERROR(CheckIndex(index));
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  if (std::max(index.rank(), 1) != std::max(self.rank(), 1)) {
    return Malformed(
        absl::StrCat("index ", ToText(index), " into ", ToText(self)));
  }
  return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
}

// index_add(self, dim, index, source, ...), index_fill, index_copy
absl::StatusOr<TensorMetas> InferIndexAdd(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(CheckIndex(in.tensor(2)));
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  return LikeSelf(in);
}

constexpr absl::string_view kIndex =
    "(Tensor self, Tensor?[] indices) -> Tensor";
constexpr absl::string_view kIndexPut =
    "(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) "
    "-> Tensor";

constexpr OpRow kRows[] = {
    {"aten.embedding.default",
     "(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool "
     "scale_grad_by_freq=False, bool sparse=False) -> Tensor",
     InferEmbedding, kLower},
    {"aten.embedding_dense_backward.default",
     "(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt "
     "padding_idx, bool scale_grad_by_freq) -> Tensor",
     InferEmbeddingBackward, kLower},
    {"aten.index.Tensor", kIndex, InferIndex, kLower},
    {"aten._unsafe_index.Tensor", kIndex, InferIndex, kLower},
    {"aten.index_put.default", kIndexPut, InferIndexPut, kLower, kInplace},
    {"aten._unsafe_index_put.default", kIndexPut, InferIndexPut, kLower},
    {"aten.index_select.default",
     "(Tensor self, int dim, Tensor index) -> Tensor", InferIndexSelect,
     kLower},
    {"aten.gather.default",
     "(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> "
     "Tensor",
     InferGather, kLower},
    {"aten.scatter.src",
     "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", InferScatter,
     kLower, kInplace},
    {"aten.scatter.value",
     "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     InferScatter, kLower, kInplace},
    {"aten.scatter_add.default",
     "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", InferScatter,
     kLower, kInplace},
    {"aten.index_add.default",
     "(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) "
     "-> Tensor",
     InferIndexAdd, kLower, kInplace},
    {"aten.index_copy.default",
     "(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
     InferIndexAdd, kLower, kInplace},
    {"aten.index_fill.int_Scalar",
     "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     InferIndexAdd, kLower, kInplace},
    {"aten.index_fill.int_Tensor",
     "(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
     InferIndexAdd, kLower, kInplace},
};

}  // namespace

absl::Span<const OpRow> IndexOps() { return kRows; }

}  // namespace kiln
