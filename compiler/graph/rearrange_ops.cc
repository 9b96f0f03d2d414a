// Elements brought to other places by rules of their own: pads that mirror,
// shuffles of channels, elements by their number, scatters that combine.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;
constexpr auto kLower = Handling::kLower;
constexpr auto kInplace = OpRow::Inplace::kYes;

absl::StatusOr<TensorMetas> InferLikeSelf(const InferInput& in) {
  return TensorMetas{MetaLike(in.tensor(0), in.shapes)};
}

// scatter_reduce(self, dim, index, src, ...), index_reduce
absl::StatusOr<TensorMetas> InferScatterReduce(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  RETURN_IF_ERROR(WrapDim(in.integer(1), self.rank()).status());
  if (!IsInteger(in.tensor(2).dtype))
    return Malformed("index: expected integers");
  const int rank = std::max(in.tensor(2).rank(), 1);
  if (rank != std::max(self.rank(), 1)) {
    return Malformed(
        absl::StrCat("index ", ToText(in.tensor(2)), " into ", ToText(self)));
  }
  return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
}
absl::StatusOr<TensorMetas> InferIndexReduce(const InferInput& in) {
  RETURN_IF_ERROR(WrapDim(in.integer(1), in.tensor(0).rank()).status());
  if (in.tensor(2).rank() > 1) return Malformed("index of rank above 1");
  return InferLikeSelf(in);
}

// diag_embed(self, offset, dim1, dim2)
absl::StatusOr<TensorMetas> InferDiagEmbed(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const int rank = self.rank() + 1;
  if (self.rank() < 1) return Malformed("a tensor of rank 0");
  ASSIGN_OR_RETURN(const int a, WrapDim(in.integer(2), rank));
  ASSIGN_OR_RETURN(const int b, WrapDim(in.integer(3), rank));
  if (a == b) return Malformed("dim1 equals dim2");
  const int64_t offset = in.integer(1);
  const SymExpr side = self.sizes.back() + (offset < 0 ? -offset : offset);
  DimVector sizes(self.sizes.begin(), self.sizes.end() - 1);
  sizes.insert(sizes.begin() + std::min(a, b), side);
  sizes.insert(sizes.begin() + std::max(a, b), side);
  return TensorMetas{ContiguousMeta(self.dtype, std::move(sizes))};
}

// max_unpool2d(self, indices, output_size)
template <int kDims>
absl::StatusOr<TensorMetas> InferUnpool(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const DimVector out = in.ints(2);
  if (self.rank() < kDims + 1 || out.size() != kDims) {
    return Malformed(absl::StrCat("unpooling of ", ToText(self)));
  }
  DimVector sizes(self.sizes.begin(), self.sizes.end() - kDims);
  sizes.insert(sizes.end(), out.begin(), out.end());
  return TensorMetas{
      MetaInFormat(self.dtype, std::move(sizes),
                   kDims == 2 && SuggestsChannelsLast(self, in.shapes))};
}

// take(self, index)
absl::StatusOr<TensorMetas> InferTake(const InferInput& in) {
  if (in.tensor(1).dtype != DType::kInt64)
    return Malformed("index: expected i64");
  return TensorMetas{ContiguousMeta(in.tensor(0).dtype, in.tensor(1).sizes)};
}

// reflection_pad(self, padding): pairs from the last dimension on.
template <int kDims>
absl::StatusOr<TensorMetas> InferPadded(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const DimVector padding = in.ints(1);
  if (padding.size() != 2 * kDims || self.rank() < kDims) {
    return Malformed(absl::StrCat("padding ", ToText(padding)));
  }
  DimVector sizes = self.sizes;
  for (size_t k = 0; k < kDims; ++k) {
    SymExpr& size = sizes[sizes.size() - 1 - k];
    size = size + padding[2 * k] + padding[2 * k + 1];
    if (in.shapes.DecideLt(size, 1, "pad")) {
      return Malformed(
          absl::StrCat("padding ", ToText(padding), " of ", ToText(self)));
    }
  }
  return TensorMetas{
      MetaInFormat(self.dtype, std::move(sizes),
                   kDims == 2 && SuggestsChannelsLast(self, in.shapes))};
}
absl::StatusOr<TensorMetas> InferPadBackward(const InferInput& in) {
  const TensorMeta& self = in.tensor(1);
  return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
}

// pixel_shuffle(self, upscale_factor) and its inverse
absl::StatusOr<TensorMetas> InferPixels(const InferInput& in, bool up) {
  const TensorMeta& self = in.tensor(0);
  const int64_t r = in.integer(1);
  if (self.rank() < 3 || r < 1) return Malformed("expected rank 3 or more");
  DimVector sizes = self.sizes;
  SymExpr &c = sizes[sizes.size() - 3], &h = sizes[sizes.size() - 2],
          &w = sizes[sizes.size() - 1];
  if (up) {
    c = FloorDiv(c, r * r);
    h = h * r;
    w = w * r;
  } else {
    c = c * (r * r);
    h = FloorDiv(h, r);
    w = FloorDiv(w, r);
  }
  return TensorMetas{ContiguousMeta(self.dtype, std::move(sizes))};
}
absl::StatusOr<TensorMetas> InferShuffle(const InferInput& in) {
  return InferPixels(in, true);
}
absl::StatusOr<TensorMetas> InferUnshuffle(const InferInput& in) {
  return InferPixels(in, false);
}

// rot90(self, k, dims): quarter turns are flips of a transposed tensor.
absl::StatusOr<TensorMetas> InferTurn(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  const std::vector<int64_t> dims = in.fixed_ints(2);
  if (dims.size() != 2) return Malformed("dims: expected two");
  ASSIGN_OR_RETURN(const int a, WrapDim(dims[0], self.rank()));
  ASSIGN_OR_RETURN(const int b, WrapDim(dims[1], self.rank()));
  const int64_t turns = ((in.integer(1) % 4) + 4) % 4;
  if (turns == 0) {
    return TensorMetas{ContiguousMeta(self.dtype, self.sizes)};
  }
  TensorMeta meta = MetaLike(self, in.shapes);
  if (turns % 2 == 1) {
    std::swap(meta.sizes[a], meta.sizes[b]);
    std::swap(meta.strides[a], meta.strides[b]);
  }
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferCross(const InferInput& in) {
  const TensorMeta &a = in.tensor(0), &b = in.tensor(1);
  ASSIGN_OR_RETURN(DimVector sizes,
                   BroadcastSizes({&a.sizes, &b.sizes}, in.shapes));
  ASSIGN_OR_RETURN(const int dim,
                   WrapDim(in.integer(2), static_cast<int>(sizes.size())));
  if (!in.shapes.DecideEq(sizes[dim], 3, "cross")) {
    return Malformed("a dimension that is not 3");
  }
  return TensorMetas{ContiguousMeta(a.dtype, std::move(sizes))};
}

absl::StatusOr<TensorMetas> InferTrace(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (self.rank() != 2) return Malformed("a tensor that is no matrix");
  return TensorMetas{
      ContiguousMeta(IsFloat(self.dtype) ? self.dtype : DType::kInt64, {})};
}

constexpr absl::string_view kPad2 =
    "(Tensor self, SymInt[2] padding) -> Tensor";
constexpr absl::string_view kPad4 =
    "(Tensor self, SymInt[4] padding) -> Tensor";
constexpr absl::string_view kPad6 =
    "(Tensor self, SymInt[6] padding) -> Tensor";
constexpr absl::string_view kPadBackward =
    "(Tensor grad_output, Tensor self, SymInt[] padding) -> Tensor";

constexpr OpRow kRows[] = {
    {"aten.scatter_reduce.two",
     "(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
     "include_self=True) -> Tensor",
     InferScatterReduce, kLower, kInplace},
    {"aten.index_reduce.default",
     "(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
     "include_self=True) -> Tensor",
     InferIndexReduce, kLower, kInplace},
    {"aten.diag_embed.default",
     "(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     InferDiagEmbed, kLower},
    {"aten.max_unpool2d.default",
     "(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
     InferUnpool<2>, kDecompose},
    {"aten.max_unpool3d.default",
     "(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, "
     "int[3] padding) -> Tensor",
     InferUnpool<3>, kDecompose},
    {"aten.take.default", "(Tensor self, Tensor index) -> Tensor", InferTake,
     kDecompose},
    {"aten.put.default",
     "(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> "
     "Tensor",
     InferLikeSelf, kDecompose, kInplace},
    {"aten.reflection_pad1d.default", kPad2, InferPadded<1>, kDecompose},
    {"aten.reflection_pad2d.default", kPad4, InferPadded<2>, kDecompose},
    {"aten.reflection_pad3d.default", kPad6, InferPadded<3>, kDecompose},
    {"aten.replication_pad1d.default", kPad2, InferPadded<1>, kDecompose},
    {"aten.replication_pad2d.default", kPad4, InferPadded<2>, kDecompose},
    {"aten.replication_pad3d.default", kPad6, InferPadded<3>, kDecompose},
    {"aten.reflection_pad1d_backward.default", kPadBackward, InferPadBackward,
     kDecompose},
    {"aten.reflection_pad2d_backward.default", kPadBackward, InferPadBackward,
     kDecompose},
    {"aten.replication_pad1d_backward.default", kPadBackward, InferPadBackward,
     kDecompose},
    {"aten.replication_pad2d_backward.default", kPadBackward, InferPadBackward,
     kDecompose},
    {"aten.pixel_shuffle.default",
     "(Tensor self, int upscale_factor) -> Tensor", InferShuffle, kDecompose},
    {"aten.pixel_unshuffle.default",
     "(Tensor self, int downscale_factor) -> Tensor", InferUnshuffle,
     kDecompose},
    {"aten.channel_shuffle.default", "(Tensor self, SymInt groups) -> Tensor",
     InferLikeSelf, kDecompose},
    {"aten.rot90.default",
     "(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", InferTurn,
     kDecompose},
    {"aten.linalg_cross.default",
     "(Tensor self, Tensor other, *, int dim=-1) -> Tensor", InferCross,
     kDecompose},
    {"aten.trace.default", "(Tensor self) -> Tensor", InferTrace, kDecompose},
};

}  // namespace

absl::Span<const OpRow> RearrangeOps() { return kRows; }

}  // namespace kiln
