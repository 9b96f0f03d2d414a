// Operators that move elements about: joins, pads, flips, and the gradients of
// views.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "compiler/graph/slice_rules.h"
#include "compiler/graph/type_promotion.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;
constexpr auto kInplace = OpRow::Inplace::kYes;

TensorMetas LikeSelf(const InferInput& in) {
  return {MetaLike(in.tensor(0), in.shapes)};
}

// An empty tensor of rank 1 is no part of a join, for old programs' sake.
bool IsLegacyEmpty(const TensorMeta& meta) {
  return meta.rank() == 1 && meta.sizes[0].Is(0);
}

// cat(tensors, dim)
absl::StatusOr<TensorMetas> InferCat(const InferInput& in) {
  const std::vector<const TensorMeta*> all = in.tensors(0);
  if (all.empty()) return Malformed("tensors: an empty list");
  TypePromotion promotion;
  const TensorMeta* first = nullptr;
  for (const TensorMeta* meta : all) {
    promotion.AddTensor(*meta);
    if (first == nullptr && !IsLegacyEmpty(*meta)) first = meta;
  }
  if (first == nullptr) {
    return TensorMetas{ContiguousMeta(promotion.Result(), {0})};
  }
  if (first->rank() == 0) return Malformed("a tensor of rank 0");
  ASSIGN_OR_RETURN(const int dim, WrapDim(in.integer(1), first->rank()));
  DimVector sizes = first->sizes;
  sizes[dim] = 0;
  bool channels_last = true;
  for (const TensorMeta* meta : all) {
    if (IsLegacyEmpty(*meta)) continue;
    bool fits = meta->rank() == first->rank();
    for (int d = 0; fits && d < first->rank(); ++d) {
      fits = d == dim ||
             in.shapes.DecideEq(meta->sizes[d], first->sizes[d], "cat");
    }
    if (!fits) {
      return Malformed(absl::StrCat("cat of ", ToText(*first), " and ",
                                    ToText(*meta), " along ", dim));
    }
    sizes[dim] = sizes[dim] + meta->sizes[dim];
    channels_last = channels_last && SuggestsChannelsLast(*meta, in.shapes);
  }
  return TensorMetas{
      MetaInFormat(promotion.Result(), std::move(sizes), channels_last)};
}

absl::StatusOr<TensorMetas> InferStack(const InferInput& in) {
  const std::vector<const TensorMeta*> all = in.tensors(0);
  if (all.empty()) return Malformed("tensors: an empty list");
  TypePromotion promotion;
  for (const TensorMeta* meta : all) {
    promotion.AddTensor(*meta);
    if (!SameSizes(meta->sizes, all[0]->sizes, in.shapes)) {
      return Malformed(
          absl::StrCat("stack of ", ToText(*all[0]), " and ", ToText(*meta)));
    }
  }
  DimVector sizes = all[0]->sizes;
  ASSIGN_OR_RETURN(const int dim,
                   WrapDim(in.integer(1), static_cast<int>(sizes.size()) + 1));
  sizes.insert(sizes.begin() + dim, SymExpr(static_cast<int64_t>(all.size())));
  return TensorMetas{ContiguousMeta(promotion.Result(), std::move(sizes))};
}

// constant_pad_nd(self, pad, value): pairs from the last dimension on.
absl::StatusOr<TensorMetas> InferPad(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const DimVector pad = in.ints(1);
  if (pad.size() % 2 != 0 || pad.size() > 2 * self.sizes.size()) {
    return Malformed(absl::StrCat("pad ", ToText(pad), " of ", ToText(self)));
  }
  DimVector sizes = self.sizes;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    SymExpr& size = sizes[sizes.size() - 1 - i];
    size = size + pad[2 * i] + pad[2 * i + 1];
    if (in.shapes.DecideLt(size, 0, "pad")) {
      return Malformed(absl::StrCat("pad ", ToText(pad), " of ", ToText(self)));
    }
  }
  return TensorMetas{MetaInFormat(self.dtype, std::move(sizes),
                                  SuggestsChannelsLast(self, in.shapes))};
}

absl::StatusOr<TensorMetas> InferFlip(const InferInput& in) {
  RETURN_IF_ERROR(DimMask(in.fixed_ints(1), in.tensor(0).rank()).status());
  return LikeSelf(in);
}
absl::StatusOr<TensorMetas> InferLike(const InferInput& in) {
  return LikeSelf(in);
}

absl::StatusOr<TensorMetas> InferRepeat(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  DimVector sizes = in.ints(1);
  if (sizes.size() < self.sizes.size()) {
    return Malformed(
        absl::StrCat("repeats ", ToText(sizes), " of ", ToText(self)));
  }
  const size_t shift = sizes.size() - self.sizes.size();
  for (size_t d = 0; d < self.sizes.size(); ++d) {
    sizes[d + shift] = sizes[d + shift] * self.sizes[d];
  }
  return TensorMetas{ContiguousMeta(self.dtype, std::move(sizes))};
}

absl::StatusOr<TensorMetas> InferTril(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (self.rank() < 2) return Malformed("a tensor of rank below 2");
  return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
}

// The dimension of `sizes` that argument 2 names.
absl::StatusOr<int> PlacedDim(const InferInput& in, const DimVector& sizes) {
  if (sizes.empty()) return Malformed("a place in a tensor of rank 0");
  return WrapDim(in.integer(2), static_cast<int>(sizes.size()));
}

// slice_backward(grad_output, input_sizes, dim, start, end, step)
absl::StatusOr<TensorMetas> InferSliceBackward(const InferInput& in) {
  DimVector sizes = in.ints(1);
  ASSIGN_OR_RETURN(const int dim, PlacedDim(in, sizes));
  RETURN_IF_ERROR(
      BoundsOfSlice(in.args[3], in.args[4], in.args[5], sizes[dim], in.shapes)
          .status());
  return TensorMetas{ContiguousMeta(in.tensor(0).dtype, std::move(sizes))};
}
// select_backward(grad_output, input_sizes, dim, index)
absl::StatusOr<TensorMetas> InferSelectBackward(const InferInput& in) {
  DimVector sizes = in.ints(1);
  ASSIGN_OR_RETURN(const int dim, PlacedDim(in, sizes));
  RETURN_IF_ERROR(WrapIndex(in.sym(3), sizes[dim], in.shapes).status());
  return TensorMetas{ContiguousMeta(in.tensor(0).dtype, std::move(sizes))};
}
absl::StatusOr<TensorMetas> InferDiagonalBackward(const InferInput& in) {
  return TensorMetas{ContiguousMeta(in.tensor(0).dtype, in.ints(1))};
}

// slice_scatter(self, src, dim, start, end, step)
absl::StatusOr<TensorMetas> InferSliceScatter(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, PlacedDim(in, self.sizes));
  ASSIGN_OR_RETURN(const SliceBounds bounds,
                   BoundsOfSlice(in.args[3], in.args[4], in.args[5],
                                 self.sizes[dim], in.shapes));
  DimVector due = self.sizes;
  due[dim] = bounds.length;
  ASSIGN_OR_RETURN(const DimVector sizes,
                   BroadcastSizes({&due, &in.tensor(1).sizes}, in.shapes));
  if (!SameSizes(sizes, due, in.shapes)) {
    return Malformed(
        absl::StrCat("src ", ToText(in.tensor(1)), ", expected ", ToText(due)));
  }
  return LikeSelf(in);
}
absl::StatusOr<TensorMetas> InferSelectScatter(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  ASSIGN_OR_RETURN(const int dim, PlacedDim(in, self.sizes));
  RETURN_IF_ERROR(WrapIndex(in.sym(3), self.sizes[dim], in.shapes).status());
  DimVector due = self.sizes;
  due.erase(due.begin() + dim);
  if (!SameSizes(in.tensor(1).sizes, due, in.shapes)) {
    return Malformed(
        absl::StrCat("src ", ToText(in.tensor(1)), ", expected ", ToText(due)));
  }
  return LikeSelf(in);
}

constexpr OpRow kRows[] = {
    {"aten.cat.default", "(Tensor[] tensors, int dim=0) -> Tensor", InferCat,
     kLower},
    {"aten.stack.default", "(Tensor[] tensors, int dim=0) -> Tensor",
     InferStack, Handling::kDecompose},
    {"aten.constant_pad_nd.default",
     "(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", InferPad, kLower},
    {"aten.flip.default", "(Tensor self, int[] dims) -> Tensor", InferFlip,
     kLower},
    {"aten.roll.default",
     "(Tensor self, SymInt[] shifts, int[] dims=[]) -> Tensor", InferLike,
     kLower},
    {"aten.repeat.default", "(Tensor self, SymInt[] repeats) -> Tensor",
     InferRepeat, kLower},
    {"aten.tril.default", "(Tensor self, SymInt diagonal=0) -> Tensor",
     InferTril, kLower, kInplace},
    {"aten.triu.default", "(Tensor self, SymInt diagonal=0) -> Tensor",
     InferTril, kLower, kInplace},
    {"aten.slice_backward.default",
     "(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt "
     "end, SymInt step) -> Tensor",
     InferSliceBackward, kLower},
    {"aten.select_backward.default",
     "(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> "
     "Tensor",
     InferSelectBackward, kLower},
    {"aten.diagonal_backward.default",
     "(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int "
     "dim2) -> Tensor",
     InferDiagonalBackward, kLower},
    {"aten.slice_scatter.default",
     "(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? "
     "end=None, SymInt step=1) -> Tensor",
     InferSliceScatter, kLower},
    {"aten.select_scatter.default",
     "(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
     InferSelectScatter, kLower},
    {"aten.diagonal_scatter.default",
     "(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> "
     "Tensor",
     InferLike, kLower},
    {"aten.as_strided_scatter.default",
     "(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? "
     "storage_offset=None) -> Tensor",
     InferLike, kLower},
};

}  // namespace

absl::Span<const OpRow> ShapeOps() { return kRows; }

}  // namespace kiln
