// Elements brought to other places: index lists and views say which.

#include <string>
#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

ValueId Flat(Emitter& e, ValueId x) {
  return e.Reshape(x, {e.meta(x).numel()});
}

// The gradient of IndexDim: values added up at their places.
ValueId AddAtDim(Emitter& e, const SymExpr& size, ValueId values, int64_t dim,
                 ValueId index) {
  static const OpDef& kPut = KnownOp("aten.index_put.default");
  DimVector sizes = e.meta(values).sizes;
  sizes[dim] = size;
  Argument::List indices(dim);
  indices.emplace_back(index);
  return e.Call(kPut, {e.Full(sizes, 0.0, e.dtype(values)), std::move(indices),
                       values, true});
}

// Which place of `size` the places -before, ..., size + after - 1 show.
ValueId PaddedPlaces(Emitter& e, const SymExpr& size, const SymExpr& before,
                     const SymExpr& after, bool reflect) {
  const ValueId at =
      e.Sub(e.Iota(size + before + after, DType::kInt64), before);
  const SymExpr last = size - 1;
  if (reflect) return e.Rsub(e.Abs(e.Rsub(e.Abs(at), last)), last);
  return e.Call("aten.clamp.default", {at, 0, last});
}

template <bool kReflect>
Parts Pad(Decomposition& d) {
  Emitter& e = d.e;
  ValueId y = d.Tensor("self");
  const DimVector sizes = e.meta(y).sizes, padding = d.Ints("padding");
  for (size_t k = 0; 2 * k + 1 < padding.size(); ++k) {
    const size_t dim = sizes.size() - 1 - k;
    y = e.IndexDim(y, static_cast<int64_t>(dim),
                   PaddedPlaces(e, sizes[dim], padding[2 * k],
                                padding[2 * k + 1], kReflect));
  }
  return {y};
}

template <bool kReflect>
Parts PadBackward(Decomposition& d) {
  Emitter& e = d.e;
  ValueId grad = d.Compute("grad_output");
  const DimVector sizes = d.result(0).sizes, padding = d.Ints("padding");
  for (size_t k = 0; 2 * k + 1 < padding.size(); ++k) {
    const size_t dim = sizes.size() - 1 - k;
    grad = AddAtDim(e, sizes[dim], grad, static_cast<int64_t>(dim),
                    PaddedPlaces(e, sizes[dim], padding[2 * k],
                                 padding[2 * k + 1], kReflect));
  }
  return {grad};
}

// As eager mode finds the source of nearest neighbours: in f32.
ValueId NearestPlaces(Decomposition& d, const SymExpr& from, const SymExpr& to,
                      absl::string_view scale) {
  Emitter& e = d.e;
  if (!from.is_constant() || !to.is_constant()) {
    d.Unsupported("symbolic sizes");
    return ValueId{0};
  }
  const float ratio = d.Has(scale) ? static_cast<float>(1.0 / d.Float(scale))
                                   : static_cast<float>(from.constant()) /
                                         static_cast<float>(to.constant());
  const ValueId scaled =
      e.Mul(e.ToDType(e.Iota(to, DType::kInt64), DType::kFloat32),
            static_cast<double>(ratio));
  return e.Call("aten.clamp_max.default",
                {e.ToDType(scaled, DType::kInt64), from - 1});
}

Parts UpsampleNearestBackward(Decomposition& d) {
  Emitter& e = d.e;
  ValueId grad = d.Compute("grad_output");
  const DimVector to = e.meta(grad).sizes, from = d.result(0).sizes;
  constexpr absl::string_view kScales[] = {"scales_h", "scales_w"};
  for (int64_t k = 0; k < 2; ++k) {
    const ValueId places = NearestPlaces(d, from[2 + k], to[2 + k], kScales[k]);
    grad = AddAtDim(e, from[2 + k], grad, 2 + k, places);
  }
  return {grad};
}

// Values put at their numbers within the planes of the result.
Parts MaxUnpool(Decomposition& d) {
  static const OpDef& kScatter = KnownOp("aten.scatter.src");
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const DimVector& due = d.result(0).sizes;
  const size_t dims = d.Ints("output_size").size();
  const DimVector planes(due.begin(), due.end() - dims);
  const auto flat = [&](ValueId v) {
    DimVector sizes = planes;
    SymExpr count = 1;
    const DimVector& own = e.meta(v).sizes;
    for (size_t k = own.size() - dims; k < own.size(); ++k) count *= own[k];
    sizes.push_back(count);
    return e.Reshape(v, sizes);
  };
  const ValueId zeros = flat(e.Full(due, 0, e.dtype(x)));
  const auto last = static_cast<int64_t>(planes.size());
  return {e.Reshape(
      e.Call(kScatter, {zeros, last, flat(d.Tensor("indices")), flat(x)}),
      due)};
}

Parts Take(Decomposition& d) {
  return {d.e.Call("aten.index.Tensor", {Flat(d.e, d.Tensor("self")),
                                         Argument::List{d.Tensor("index")}})};
}

Parts Put(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId self = d.Tensor("self");
  const DimVector sizes = e.meta(self).sizes;
  const ValueId y =
      e.Call("aten.index_put.default",
             {Flat(e, self), Argument::List{Flat(e, d.Tensor("index"))},
              Flat(e, d.Tensor("source")), d.Bool("accumulate")});
  return {e.Reshape(y, sizes)};
}

// [..., C r r, H, W] seen as [..., C, r, r, H, W], its factors moved behind
// the sides they stretch; `back`: the other way round.
Parts Pixels(Decomposition& d, int64_t r, bool back) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const DimVector &from = e.meta(x).sizes, &to = d.result(0).sizes;
  const int64_t lead = e.rank(x) - 3;
  DimVector wide(from.begin(), from.end() - 3);
  const DimVector split =
      back ? DimVector{from[lead], to[lead + 1], r, to[lead + 2], r}
           : DimVector{to[lead], r, r, from[lead + 1], from[lead + 2]};
  wide.insert(wide.end(), split.begin(), split.end());
  std::vector<int64_t> order = DimRange(0, lead);
  for (const int64_t k : back ? std::vector<int64_t>{0, 2, 4, 1, 3}
                              : std::vector<int64_t>{0, 3, 1, 4, 2}) {
    order.push_back(lead + k);
  }
  return {e.Reshape(e.Permute(e.Reshape(x, wide), order), to)};
}
Parts PixelShuffle(Decomposition& d) {
  return Pixels(d, d.Int("upscale_factor"), false);
}
Parts PixelUnshuffle(Decomposition& d) {
  return Pixels(d, d.Int("downscale_factor"), true);
}

Parts ChannelShuffle(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const DimVector sizes = e.meta(x).sizes;
  const SymExpr groups = d.Get("groups").sym();
  DimVector wide = sizes;
  wide[1] = FloorDiv(sizes[1], groups);
  wide.insert(wide.begin() + 1, groups);
  return {e.Reshape(e.Transpose(e.Reshape(x, wide), 1, 2), sizes)};
}

Parts Turn(Decomposition& d) {
  static const OpDef& kFlip = KnownOp("aten.flip.default");
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const int64_t turns = ((d.Int("k") % 4) + 4) % 4;
  const std::vector<int64_t> dims = d.FixedInts("dims");
  const int64_t a = dims[0], b = dims[1];
  if (turns == 0) return {e.Contiguous(x)};
  if (turns == 2) return {e.Call(kFlip, {x, ListArgument(dims)})};
  const int64_t flipped[] = {turns == 1 ? b : a};
  return {e.Transpose(e.Call(kFlip, {x, ListArgument(flipped)}), a, b)};
}

// (a1 b2 - a2 b1, a2 b0 - a0 b2, a0 b1 - a1 b0)
Parts Cross(Decomposition& d) {
  static const OpDef& kCat = KnownOp("aten.cat.default");
  Emitter& e = d.e;
  const DimVector& due = d.result(0).sizes;
  const bool floating = IsFloat(d.result(0).dtype);
  const int64_t dim = d.Dim("dim", static_cast<int>(due.size()));
  const auto operand = [&](absl::string_view name) {
    return e.Expand(floating ? d.Compute(name) : d.Tensor(name), due);
  };
  const ValueId a = operand("self"), b = operand("other");
  Argument::List parts;
  for (int64_t k = 0; k < 3; ++k) {
    const int64_t i = (k + 1) % 3, j = (k + 2) % 3;
    const auto part = [&](ValueId v, int64_t at) {
      return e.Slice(v, dim, at, at + 1, 1);
    };
    parts.emplace_back(
        e.Sub(e.Mul(part(a, i), part(b, j)), e.Mul(part(a, j), part(b, i))));
  }
  return {e.Call(kCat, {std::move(parts), dim})};
}

Parts Trace(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const ValueId diagonal = e.Call("aten.diagonal.default", {x, 0, 0, 1});
  return {e.Sum(IsFloat(e.dtype(x)) ? e.Compute(diagonal) : diagonal, {0},
                Keep::kNo)};
}

constexpr DecomposeRow kRows[] = {
    {"aten.reflection_pad1d.default", Pad<true>},
    {"aten.reflection_pad2d.default", Pad<true>},
    {"aten.reflection_pad3d.default", Pad<true>},
    {"aten.replication_pad1d.default", Pad<false>},
    {"aten.replication_pad2d.default", Pad<false>},
    {"aten.replication_pad3d.default", Pad<false>},
    {"aten.reflection_pad1d_backward.default", PadBackward<true>},
    {"aten.reflection_pad2d_backward.default", PadBackward<true>},
    {"aten.replication_pad1d_backward.default", PadBackward<false>},
    {"aten.replication_pad2d_backward.default", PadBackward<false>},
    {"aten.upsample_nearest2d_backward.default", UpsampleNearestBackward},
    {"aten.max_unpool2d.default", MaxUnpool},
    {"aten.max_unpool3d.default", MaxUnpool},
    {"aten.take.default", Take},
    {"aten.put.default", Put},
    {"aten.pixel_shuffle.default", PixelShuffle},
    {"aten.pixel_unshuffle.default", PixelUnshuffle},
    {"aten.channel_shuffle.default", ChannelShuffle},
    {"aten.rot90.default", Turn},
    {"aten.linalg_cross.default", Cross},
    {"aten.trace.default", Trace},
};

}  // namespace

absl::Span<const DecomposeRow> RearrangeDecompositions() { return kRows; }

}  // namespace kiln
