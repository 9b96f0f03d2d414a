// Convolutions, of one to three spatial dimensions.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct ConvShape {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

// A list of one number stands for all spatial dimensions.
absl::StatusOr<std::vector<int64_t>> Spatial(std::vector<int64_t> given,
                                             int spatial, int64_t least,
                                             absl::string_view what) {
  if (given.size() == 1) given.assign(spatial, given[0]);
  if (static_cast<int>(given.size()) != spatial) {
    return Malformed(absl::StrCat(what, " of ", given.size(),
                                  " numbers, expected ", spatial));
  }
  for (const int64_t n : given) {
    if (n < least) return Malformed(absl::StrCat(what, " below ", least));
  }
  return given;
}

// The seven parameters of a convolution, from number `at` on.
absl::StatusOr<ConvShape> ReadShape(const InferInput& in, size_t at,
                                    int spatial) {
  ConvShape shape;
  ASSIGN_OR_RETURN(shape.stride,
                   Spatial(in.fixed_ints(at), spatial, 1, "stride"));
  ASSIGN_OR_RETURN(shape.padding,
                   Spatial(in.fixed_ints(at + 1), spatial, 0, "padding"));
  ASSIGN_OR_RETURN(shape.dilation,
                   Spatial(in.fixed_ints(at + 2), spatial, 1, "dilation"));
  shape.transposed = in.flag(at + 3);
  ASSIGN_OR_RETURN(shape.output_padding, Spatial(in.fixed_ints(at + 4), spatial,
                                                 0, "output_padding"));
  shape.groups = in.integer(at + 5);
  if (shape.groups < 1) return Malformed("groups below 1");
  return shape;
}

bool InChannelsLast(const TensorMeta& x, const TensorMeta& w,
                    ShapeEnv& shapes) {
  return SuggestsChannelsLast(x, shapes) || SuggestsChannelsLast(w, shapes);
}

absl::StatusOr<DimVector> OutputSizes(const TensorMeta& x, const TensorMeta& w,
                                      const ConvShape& shape,
                                      ShapeEnv& shapes) {
  const SymExpr channels =
      shape.transposed ? w.sizes[0] : w.sizes[1] * shape.groups;
  if (!shapes.DecideEq(x.sizes[1], channels, "convolution")) {
    return Malformed(absl::StrCat("convolution of ", ToText(x), " by ",
                                  ToText(w), " in ", shape.groups, " groups"));
  }
  DimVector sizes = {x.sizes[0],
                     shape.transposed ? w.sizes[1] * shape.groups : w.sizes[0]};
  for (size_t d = 0; d + 2 < x.sizes.size(); ++d) {
    const SymExpr reach = (w.sizes[d + 2] - 1) * shape.dilation[d] + 1;
    const SymExpr& n = x.sizes[d + 2];
    const SymExpr out =
        shape.transposed
            ? (n - 1) * shape.stride[d] - 2 * shape.padding[d] + reach +
                  shape.output_padding[d]
            : FloorDiv(n + 2 * shape.padding[d] - reach, shape.stride[d]) + 1;
    if (shapes.DecideLt(out, 1, "convolution")) {
      return Malformed(absl::StrCat("convolution of ", ToText(x), " by ",
                                    ToText(w), " leaves nothing"));
    }
    sizes.push_back(out);
  }
  return sizes;
}

absl::StatusOr<TensorMetas> InferConvolution(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  const TensorMeta& w = in.tensor(1);
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank()) {
    return Malformed(absl::StrCat("convolution of ", ToText(x), " by ",
                                  ToText(w), ", expected ranks 3 to 5"));
  }
  if (x.dtype != w.dtype) return Malformed("input and weight of two dtypes");
  ASSIGN_OR_RETURN(const ConvShape shape, ReadShape(in, 3, x.rank() - 2));
  ASSIGN_OR_RETURN(DimVector sizes, OutputSizes(x, w, shape, in.shapes));
  return TensorMetas{
      MetaInFormat(x.dtype, std::move(sizes), InChannelsLast(x, w, in.shapes))};
}

// convolution_backward(grad_output, input, weight, bias_sizes, ...7,
// output_mask): the gradients of input, weight and bias that are asked for.
absl::StatusOr<TensorMetas> InferConvolutionBackward(const InferInput& in) {
  const TensorMeta& grad = in.tensor(0);
  const TensorMeta& x = in.tensor(1);
  const TensorMeta& w = in.tensor(2);
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank() ||
      grad.rank() != x.rank()) {
    return Malformed("ranks, expected 3 to 5 and equal");
  }
  ASSIGN_OR_RETURN(const ConvShape shape, ReadShape(in, 4, x.rank() - 2));
  ASSIGN_OR_RETURN(const DimVector due, OutputSizes(x, w, shape, in.shapes));
  if (!SameSizes(due, grad.sizes, in.shapes)) {
    return Malformed(
        absl::StrCat("gradient ", ToText(grad), ", expected ", ToText(due)));
  }
  const Argument::List& mask = in.args[10].list();
  if (mask.size() != 3) return Malformed("output_mask, expected three flags");
  const bool channels_last = InChannelsLast(x, w, in.shapes);
  TensorMetas metas = {MetaInFormat(x.dtype, x.sizes, channels_last),
                       MetaInFormat(w.dtype, w.sizes, channels_last),
                       ContiguousMeta(grad.dtype, {grad.sizes[1]})};
  for (size_t i = 0; i < 3; ++i) {
    metas[i].defined = std::get<bool>(mask[i].v);
  }
  return metas;
}

constexpr OpRow kRows[] = {
    {"aten.convolution.default",
     "(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] "
     "padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
     "SymInt groups) -> Tensor",
     InferConvolution, Handling::kStep},
    {"aten.convolution_backward.default",
     "(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
     "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
     "SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, "
     "Tensor, Tensor)",
     InferConvolutionBackward, Handling::kStep},
};

}  // namespace

absl::Span<const OpRow> ConvolutionOps() { return kRows; }

}  // namespace kiln
