// Operators whose results are other views of their argument.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "compiler/graph/slice_rules.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kView = Handling::kView;

// A view in more pieces is no program that anybody means.
constexpr int64_t kMaxPieces = 1 << 16;

absl::Status CheckPieces(int64_t n) {
  if (n <= kMaxPieces) return absl::OkStatus();
  return MakeError(ErrorReason::kTooLarge,
                   absl::StrCat(n, " results, expected at most ", kMaxPieces));
}

TensorMeta Like(const TensorMeta& self, DimVector sizes, DimVector strides) {
  TensorMeta meta;
  meta.dtype = self.dtype;
  meta.sizes = std::move(sizes);
  meta.strides = std::move(strides);
  meta.offset = self.offset;
  return meta;
}

// Strides that no view can have mean a copy, as in reshape: passes may change
// the layout of what is viewed, and lowering needs no strides here.
absl::StatusOr<TensorMetas> InferView(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(DimVector sizes,
                   InferSize(in.ints(1), self.sizes, in.shapes));
  std::optional<DimVector> strides = ViewStrides(self, sizes, in.shapes);
  DimVector chosen =
      strides.has_value() ? *std::move(strides) : ContiguousStrides(sizes);
  return TensorMetas{Like(self, std::move(sizes), std::move(chosen))};
}

absl::StatusOr<TensorMetas> InferAlias(const InferInput& in) {
  return TensorMetas{in.tensor(0)};
}

absl::StatusOr<TensorMetas> InferPermute(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const std::vector<int64_t> dims = in.fixed_ints(1);
  ASSIGN_OR_RETURN(const std::vector<bool> mask, DimMask(dims, self.rank()));
  if (static_cast<int>(dims.size()) != self.rank()) {
    return Malformed(absl::StrCat(dims.size(), " dims for ", ToText(self)));
  }
  DimVector sizes, strides;
  for (const int64_t dim : dims) {
    const int64_t from = dim < 0 ? dim + self.rank() : dim;
    sizes.push_back(self.sizes[from]);
    strides.push_back(self.strides[from]);
  }
  return TensorMetas{Like(self, std::move(sizes), std::move(strides))};
}

TensorMetas Swapped(const TensorMeta& self, int a, int b) {
  TensorMeta meta = self;
  if (meta.rank() > 0) {
    std::swap(meta.sizes[a], meta.sizes[b]);
    std::swap(meta.strides[a], meta.strides[b]);
  }
  return {std::move(meta)};
}

absl::StatusOr<TensorMetas> InferTranspose(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int a, WrapDim(in.integer(1), self.rank()));
  ASSIGN_OR_RETURN(const int b, WrapDim(in.integer(2), self.rank()));
  return Swapped(self, a, b);
}

absl::StatusOr<TensorMetas> InferT(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (self.rank() > 2) return Malformed(absl::StrCat("t of ", ToText(self)));
  return self.rank() < 2 ? TensorMetas{self} : Swapped(self, 0, 1);
}

absl::StatusOr<TensorMetas> InferExpand(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  DimVector sizes = in.ints(1);
  if (sizes.size() < self.sizes.size()) {
    return Malformed(
        absl::StrCat("expand of ", ToText(self), " to ", ToText(sizes)));
  }
  DimVector strides(sizes.size(), 0);
  if (self.rank() == 0) {
    return TensorMetas{Like(self, std::move(sizes), std::move(strides))};
  }
  const size_t shift = sizes.size() - self.sizes.size();
  for (size_t d = sizes.size(); d-- > 0;) {
    if (d < shift) {
      if (sizes[d].Is(-1)) return Malformed("-1 for a dimension that is new");
      // As PyTorch: the stride of a new dimension of size 1 follows on.
      if (sizes[d].Is(1)) strides[d] = sizes[d + 1] * strides[d + 1];
      continue;
    }
    const SymExpr& from = self.sizes[d - shift];
    if (sizes[d].Is(-1)) sizes[d] = from;
    if (from == sizes[d]) {
      strides[d] = self.strides[d - shift];
    } else if (in.shapes.DecideIsOne(from, "expand")) {
      strides[d] = 0;
    } else if (in.shapes.DecideEq(from, sizes[d], "expand")) {
      strides[d] = self.strides[d - shift];
    } else {
      return Malformed(
          absl::StrCat("expand of ", ToText(self), " to ", ToText(in.ints(1))));
    }
  }
  return TensorMetas{Like(self, std::move(sizes), std::move(strides))};
}

absl::StatusOr<TensorMetas> InferUnsqueeze(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank() + 1));
  TensorMeta meta = self;
  const SymExpr stride =
      dim < self.rank() ? self.sizes[dim] * self.strides[dim] : SymExpr(1);
  meta.sizes.insert(meta.sizes.begin() + dim, SymExpr(1));
  meta.strides.insert(meta.strides.begin() + dim, stride);
  return TensorMetas{std::move(meta)};
}

// Drops the dimensions of `mask` that have size 1.
TensorMetas Squeezed(const InferInput& in, const std::vector<bool>& mask) {
  const TensorMeta& self = in.tensor(0);
  TensorMeta meta = Like(self, {}, {});
  for (int d = 0; d < self.rank(); ++d) {
    if (mask[d] && in.shapes.DecideEq(self.sizes[d], 1, "squeeze")) continue;
    meta.sizes.push_back(self.sizes[d]);
    meta.strides.push_back(self.strides[d]);
  }
  return {std::move(meta)};
}

absl::StatusOr<TensorMetas> InferSqueeze(const InferInput& in) {
  return Squeezed(in, std::vector<bool>(in.tensor(0).rank(), true));
}
absl::StatusOr<TensorMetas> InferSqueezeDim(const InferInput& in) {
  const int rank = in.tensor(0).rank();
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), rank));
  std::vector<bool> mask(std::max(rank, 1), false);
  mask[dim] = true;
  return Squeezed(in, mask);
}
absl::StatusOr<TensorMetas> InferSqueezeDims(const InferInput& in) {
  const std::vector<int64_t> dims = in.fixed_ints(1);
  if (dims.empty()) return TensorMetas{in.tensor(0)};
  ASSIGN_OR_RETURN(const std::vector<bool> mask,
                   DimMask(dims, in.tensor(0).rank()));
  return Squeezed(in, mask);
}

absl::StatusOr<TensorMetas> InferSelect(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (self.rank() == 0) return Malformed("select of a tensor of rank 0");
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank()));
  ASSIGN_OR_RETURN(const SymExpr index,
                   WrapIndex(in.sym(2), self.sizes[dim], in.shapes));
  TensorMeta meta = self;
  meta.offset = meta.offset + index * meta.strides[dim];
  meta.sizes.erase(meta.sizes.begin() + dim);
  meta.strides.erase(meta.strides.begin() + dim);
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferSlice(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (self.rank() == 0) return Malformed("slice of a tensor of rank 0");
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank()));
  ASSIGN_OR_RETURN(const SliceBounds bounds,
                   BoundsOfSlice(in.args[2], in.args[3], in.args[4],
                                 self.sizes[dim], in.shapes));
  TensorMeta meta = self;
  meta.offset = meta.offset + bounds.start * meta.strides[dim];
  meta.sizes[dim] = bounds.length;
  meta.strides[dim] = meta.strides[dim] * bounds.step;
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferNarrow(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank()));
  ASSIGN_OR_RETURN(const SymExpr start,
                   WrapIndex(in.sym(2), self.sizes[dim] + 1, in.shapes));
  const SymExpr length = in.sym(3);
  if (!in.shapes.DecideLe(0, length, "narrow: the length is not negative") ||
      !in.shapes.DecideLe(start + length, self.sizes[dim],
                          "narrow: the piece ends within the dimension")) {
    return Malformed(absl::StrCat(
        "narrow: start ", start.ToString(), " and length ", length.ToString(),
        " leave a dimension of ", self.sizes[dim].ToString()));
  }
  TensorMeta meta = self;
  meta.offset = meta.offset + start * meta.strides[dim];
  meta.sizes[dim] = length;
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> Pieces(const TensorMeta& self, int dim,
                                   const DimVector& lengths) {
  TensorMetas metas;
  SymExpr start = 0;
  for (const SymExpr& length : lengths) {
    TensorMeta meta = self;
    meta.offset = meta.offset + start * meta.strides[dim];
    meta.sizes[dim] = length;
    start += length;
    metas.push_back(std::move(meta));
  }
  return metas;
}

absl::StatusOr<TensorMetas> InferSplit(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(2), self.rank()));
  if (self.rank() == 0) return Malformed("split of a tensor of rank 0");
  // The number of pieces is part of the graph, so the sizes are fixed where
  // they do not divide by themselves.
  const SymExpr count = CeilDiv(self.sizes[dim], in.sym(1));
  if (in.sym(1).Is(0) && !self.sizes[dim].Is(0)) {
    return Malformed("split into pieces of 0");
  }
  const int64_t n = std::max<int64_t>(1, in.shapes.Specialize(count, "split"));
  RETURN_IF_ERROR(CheckPieces(n));
  DimVector lengths(n, in.sym(1));
  lengths.back() = self.sizes[dim] - in.sym(1) * (n - 1);
  return Pieces(self, dim, lengths);
}

absl::StatusOr<TensorMetas> InferChunk(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(2), self.rank()));
  const int64_t chunks = in.integer(1);
  if (chunks <= 0 || self.rank() == 0) return Malformed("chunks below 1");
  const SymExpr each = CeilDiv(self.sizes[dim], chunks);
  const int64_t n = each.Is(0) ? chunks
                               : in.shapes.Specialize(
                                     CeilDiv(self.sizes[dim], each), "chunk");
  RETURN_IF_ERROR(CheckPieces(n));
  DimVector lengths(std::max<int64_t>(n, 1), each);
  lengths.back() = self.sizes[dim] - each * (n - 1);
  return Pieces(self, dim, lengths);
}

absl::StatusOr<TensorMetas> InferSplitWithSizes(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(2), self.rank()));
  if (self.rank() == 0) return Malformed("split of a tensor of rank 0");
  const DimVector lengths = in.ints(1);
  SymExpr total = 0;
  for (const SymExpr& length : lengths) total += length;
  if (!in.shapes.DecideEq(total, self.sizes[dim], "split_with_sizes")) {
    return Malformed(
        absl::StrCat("sizes ", ToText(lengths), " of ", ToText(self)));
  }
  return Pieces(self, dim, lengths);
}

absl::StatusOr<TensorMetas> InferUnbind(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank()));
  if (self.rank() == 0) return Malformed("unbind of a tensor of rank 0");
  const int64_t n = in.shapes.Specialize(self.sizes[dim], "unbind");
  RETURN_IF_ERROR(CheckPieces(n));
  TensorMetas metas;
  for (int64_t i = 0; i < n; ++i) {
    TensorMeta meta = self;
    meta.offset = meta.offset + meta.strides[dim] * i;
    meta.sizes.erase(meta.sizes.begin() + dim);
    meta.strides.erase(meta.strides.begin() + dim);
    metas.push_back(std::move(meta));
  }
  return metas;
}

absl::StatusOr<TensorMetas> InferAsStrided(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  TensorMeta meta = Like(self, in.ints(1), in.ints(2));
  if (meta.sizes.size() != meta.strides.size()) {
    return Malformed("stride of another rank than size");
  }
  if (in.has(3)) meta.offset = in.sym(3);
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferDiagonal(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const SymExpr& offset = in.sym(1);
  ASSIGN_OR_RETURN(const int a, WrapDim(in.integer(2), self.rank()));
  ASSIGN_OR_RETURN(const int b, WrapDim(in.integer(3), self.rank()));
  if (a == b) return Malformed("dim1 equals dim2");
  const bool above = in.shapes.DecideLe(0, offset, "diagonal");
  const SymExpr length = above ? Min(self.sizes[a], self.sizes[b] - offset)
                               : Min(self.sizes[a] + offset, self.sizes[b]);
  const bool empty = in.shapes.DecideLt(length, 0, "diagonal");
  TensorMeta meta = Like(self, {}, {});
  for (int d = 0; d < self.rank(); ++d) {
    if (d == a || d == b) continue;
    meta.sizes.push_back(self.sizes[d]);
    meta.strides.push_back(self.strides[d]);
  }
  meta.sizes.push_back(empty ? SymExpr(0) : length);
  meta.strides.push_back(self.strides[a] + self.strides[b]);
  if (!empty && !length.Is(0)) {
    meta.offset = meta.offset + (above ? offset * self.strides[b]
                                       : offset * self.strides[a] * -1);
  }
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferUnfold(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), self.rank()));
  const SymExpr& size = in.sym(2);
  const SymExpr& step = in.sym(3);
  TensorMeta meta = self;
  if (self.rank() == 0) {
    meta.sizes.push_back(size);
    meta.strides.push_back(1);
    return TensorMetas{std::move(meta)};
  }
  if (step.Is(0) || in.shapes.DecideLt(self.sizes[dim], size, "unfold")) {
    return Malformed(
        absl::StrCat("unfold of ", ToText(self), " by ", size.ToString()));
  }
  meta.sizes.push_back(size);
  meta.strides.push_back(self.strides[dim]);
  meta.sizes[dim] = FloorDiv(self.sizes[dim] - size, step) + 1;
  meta.strides[dim] = self.strides[dim] * step;
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferViewDType(const InferInput& in) {
  TensorMeta meta = in.tensor(0);
  if (SizeInBytes(*in.dtype(1)) != SizeInBytes(meta.dtype)) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "view as a dtype of another size");
  }
  meta.dtype = *in.dtype(1);
  return TensorMetas{std::move(meta)};
}

constexpr OpRow kRows[] = {
    {"aten.view.default", "(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     InferView, kView},
    {"aten._unsafe_view.default", "(Tensor self, SymInt[] size) -> Tensor",
     InferView, kView},
    {"aten.reshape.default", "(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
     InferView, kView},
    {"aten.view.dtype", "(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
     InferViewDType, kView},
    {"aten.alias.default", "(Tensor(a) self) -> Tensor(a)", InferAlias, kView},
    {"aten.detach.default", "(Tensor(a) self) -> Tensor(a)", InferAlias, kView},
    {"aten.lift_fresh.default", "(Tensor(a) self) -> Tensor(a)", InferAlias,
     kView},
    {"aten.permute.default", "(Tensor(a) self, int[] dims) -> Tensor(a)",
     InferPermute, kView},
    {"aten.transpose.int", "(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     InferTranspose, kView},
    {"aten.t.default", "(Tensor(a) self) -> Tensor(a)", InferT, kView},
    {"aten.expand.default",
     "(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
     InferExpand, kView},
    {"aten.unsqueeze.default", "(Tensor(a) self, int dim) -> Tensor(a)",
     InferUnsqueeze, kView},
    {"aten.squeeze.default", "(Tensor(a) self) -> Tensor(a)", InferSqueeze,
     kView},
    {"aten.squeeze.dim", "(Tensor(a) self, int dim) -> Tensor(a)",
     InferSqueezeDim, kView},
    {"aten.squeeze.dims", "(Tensor(a) self, int[] dim) -> Tensor(a)",
     InferSqueezeDims, kView},
    {"aten.select.int", "(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
     InferSelect, kView},
    {"aten.slice.Tensor",
     "(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
     "step=1) -> Tensor(a)",
     InferSlice, kView},
    {"aten.narrow.default",
     "(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
     InferNarrow, kView},
    {"aten.split.Tensor",
     "(Tensor(a) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
     InferSplit, kView},
    {"aten.unsafe_split.Tensor",
     "(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", InferSplit,
     kView},
    {"aten.chunk.default",
     "(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]", InferChunk,
     kView},
    {"aten.split_with_sizes.default",
     "(Tensor(a) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
     InferSplitWithSizes, kView},
    {"aten.unbind.int", "(Tensor(a) self, int dim=0) -> Tensor(a)[]",
     InferUnbind, kView},
    {"aten.as_strided.default",
     "(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? "
     "storage_offset=None) -> Tensor(a)",
     InferAsStrided, kView},
    {"aten.diagonal.default",
     "(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
     InferDiagonal, kView},
    {"aten.unfold.default",
     "(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
     InferUnfold, kView},
};

}  // namespace

absl::Span<const OpRow> ViewOps() { return kRows; }

}  // namespace kiln
