// Pooling and resizing of images.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

absl::StatusOr<std::vector<int64_t>> Pair(std::vector<int64_t> given,
                                          const std::vector<int64_t>& absent) {
  if (given.empty()) given = absent;
  if (given.size() == 1) given.push_back(given[0]);
  if (given.size() != 2)
    return Malformed("a list, expected one or two numbers");
  return given;
}

absl::StatusOr<Window> ReadWindow(const InferInput& in, size_t kernel_at,
                                  bool has_dilation) {
  Window w;
  ASSIGN_OR_RETURN(w.kernel, Pair(in.fixed_ints(kernel_at), {}));
  ASSIGN_OR_RETURN(w.stride, Pair(in.fixed_ints(kernel_at + 1), w.kernel));
  ASSIGN_OR_RETURN(w.padding, Pair(in.fixed_ints(kernel_at + 2), {0, 0}));
  w.dilation = {1, 1};
  size_t next = kernel_at + 3;
  if (has_dilation) {
    ASSIGN_OR_RETURN(w.dilation, Pair(in.fixed_ints(next++), {1, 1}));
  }
  w.ceil_mode = in.flag(next);
  for (int i = 0; i < 2; ++i) {
    if (w.kernel[i] < 1 || w.stride[i] < 1 || w.padding[i] < 0 ||
        w.dilation[i] < 1 || w.padding[i] > w.kernel[i] / 2) {
      return Malformed("a window below 1, or padded by more than its half");
    }
  }
  return w;
}

// The count of windows along one dimension. Rounded up, the last window must
// still start inside of the input or its left padding.
SymExpr CountOfWindows(const SymExpr& n, const Window& w, int i,
                       ShapeEnv& shapes) {
  const int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
  const SymExpr span = n + 2 * w.padding[i] - reach;
  if (!w.ceil_mode) return FloorDiv(span, w.stride[i]) + 1;
  const SymExpr count = CeilDiv(span, w.stride[i]) + 1;
  const bool outside =
      shapes.DecideLe(n + w.padding[i], (count - 1) * w.stride[i], "pooling");
  return outside ? count - 1 : count;
}

absl::StatusOr<TensorMeta> Pooled(const InferInput& in, const Window& w) {
  const TensorMeta& x = in.tensor(0);
  if (x.rank() != 3 && x.rank() != 4) {
    return Malformed(
        absl::StrCat("input ", ToText(x), ", expected rank 3 or 4"));
  }
  DimVector sizes = x.sizes;
  for (int i = 0; i < 2; ++i) {
    SymExpr& size = sizes[x.rank() - 2 + i];
    size = CountOfWindows(size, w, i, in.shapes);
    if (in.shapes.DecideLt(size, 1, "pooling")) {
      return Malformed(absl::StrCat("a window larger than ", ToText(x)));
    }
  }
  return MetaInFormat(x.dtype, std::move(sizes),
                      SuggestsChannelsLast(x, in.shapes));
}

// max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil_mode)
absl::StatusOr<TensorMetas> InferMaxPool(const InferInput& in) {
  ASSIGN_OR_RETURN(const Window w, ReadWindow(in, 1, /*has_dilation=*/true));
  ASSIGN_OR_RETURN(TensorMeta values, Pooled(in, w));
  TensorMeta indices = values;
  indices.dtype = DType::kInt64;
  return TensorMetas{std::move(values), std::move(indices)};
}

// avg_pool2d(self, kernel, stride, padding, ceil_mode, ...)
absl::StatusOr<TensorMetas> InferAvgPool(const InferInput& in) {
  ASSIGN_OR_RETURN(const Window w, ReadWindow(in, 1, /*has_dilation=*/false));
  ASSIGN_OR_RETURN(TensorMeta meta, Pooled(in, w));
  return TensorMetas{std::move(meta)};
}

// pool_backward(grad_output, self, ...)
absl::StatusOr<TensorMetas> InferPoolBackward(const InferInput& in) {
  const TensorMeta& x = in.tensor(1);
  return TensorMetas{
      MetaInFormat(x.dtype, x.sizes, SuggestsChannelsLast(x, in.shapes))};
}

// _adaptive_avg_pool2d(self, output_size)
absl::StatusOr<TensorMetas> InferAdaptive(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  const DimVector out = in.ints(1);
  if ((x.rank() != 3 && x.rank() != 4) || out.size() != 2) {
    return Malformed(
        absl::StrCat("input ", ToText(x), ", expected rank 3 or 4"));
  }
  DimVector sizes = x.sizes;
  sizes[x.rank() - 2] = out[0];
  sizes[x.rank() - 1] = out[1];
  return TensorMetas{MetaInFormat(x.dtype, std::move(sizes),
                                  SuggestsChannelsLast(x, in.shapes))};
}

// upsample_nearest2d(self, output_size, ...)
absl::StatusOr<TensorMetas> InferUpsample(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  const DimVector out = in.ints(1);
  if (x.rank() != 4 || out.size() != 2) {
    return Malformed(absl::StrCat("input ", ToText(x), ", expected rank 4"));
  }
  return TensorMetas{MetaInFormat(x.dtype,
                                  {x.sizes[0], x.sizes[1], out[0], out[1]},
                                  SuggestsChannelsLast(x, in.shapes))};
}

// upsample_nearest2d_backward(grad_output, output_size, input_size, ...)
absl::StatusOr<TensorMetas> InferUpsampleBackward(const InferInput& in) {
  const TensorMeta& grad = in.tensor(0);
  DimVector sizes = in.ints(2);
  if (grad.rank() != 4 || sizes.size() != 4)
    return Malformed("expected rank 4");
  return TensorMetas{MetaInFormat(grad.dtype, std::move(sizes),
                                  SuggestsChannelsLast(grad, in.shapes))};
}

constexpr OpRow kRows[] = {
    {"aten.max_pool2d_with_indices.default",
     "(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
     "int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
     InferMaxPool, kLower},
    {"aten.max_pool2d_with_indices_backward.default",
     "(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
     "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> "
     "Tensor",
     InferPoolBackward, kLower},
    {"aten.avg_pool2d.default",
     "(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
     "bool ceil_mode=False, bool count_include_pad=True, int? "
     "divisor_override=None) -> Tensor",
     InferAvgPool, kLower},
    {"aten.avg_pool2d_backward.default",
     "(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
     "int[2] padding, bool ceil_mode, bool count_include_pad, int? "
     "divisor_override) -> Tensor",
     InferPoolBackward, kLower},
    {"aten._adaptive_avg_pool2d.default",
     "(Tensor self, SymInt[2] output_size) -> Tensor", InferAdaptive,
     Handling::kDecompose},
    {"aten._adaptive_avg_pool2d_backward.default",
     "(Tensor grad_output, Tensor self) -> Tensor", InferPoolBackward,
     Handling::kDecompose},
    {"aten.upsample_nearest2d.default",
     "(Tensor self, SymInt[2] output_size, float? scales_h=None, float? "
     "scales_w=None) -> Tensor",
     InferUpsample, kLower},
    {"aten.upsample_nearest2d_backward.default",
     "(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? "
     "scales_h=None, float? scales_w=None) -> Tensor",
     InferUpsampleBackward, Handling::kDecompose},
};

}  // namespace

absl::Span<const OpRow> PoolingOps() { return kRows; }

}  // namespace kiln
