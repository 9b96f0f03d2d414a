// Normalizations and their gradients.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;

// Of means and reciprocal deviations. Half types: the CPU keeps them half, but
// for parameters in f32; CUDA has them in f32.
DType StatisticsDType(const InferInput& in, DType x, size_t weight_at) {
  if (!IsHalf(x)) return x;
  if (in.device == DeviceType::kCuda) return DType::kFloat32;
  return in.has(weight_at) ? in.tensor(weight_at).dtype : x;
}

TensorMeta LikeInFormat(const TensorMeta& x, ShapeEnv& shapes) {
  return MetaInFormat(x.dtype, x.sizes, SuggestsChannelsLast(x, shapes));
}

absl::StatusOr<size_t> NormalizedRank(const InferInput& in, size_t x_at,
                                      size_t shape_at) {
  const TensorMeta& x = in.tensor(x_at);
  const DimVector shape = in.ints(shape_at);
  bool fits = !shape.empty() && shape.size() <= x.sizes.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = in.shapes.DecideEq(
        shape[i], x.sizes[x.sizes.size() - shape.size() + i], "layer norm");
  }
  if (!fits) {
    return Malformed(
        absl::StrCat("normalized_shape ", ToText(shape), " of ", ToText(x)));
  }
  return x.sizes.size() - shape.size();
}

// native_layer_norm(input, normalized_shape, weight, bias, eps)
absl::StatusOr<TensorMetas> InferLayerNorm(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  ASSIGN_OR_RETURN(const size_t outer, NormalizedRank(in, 0, 1));
  DimVector statistics = x.sizes;
  for (size_t i = outer; i < statistics.size(); ++i) statistics[i] = 1;
  const TensorMeta stats =
      ContiguousMeta(StatisticsDType(in, x.dtype, 2), std::move(statistics));
  return TensorMetas{ContiguousMeta(x.dtype, x.sizes), stats, stats};
}

TensorMeta OptionalLike(const InferInput& in, size_t at, bool wanted) {
  TensorMeta meta;
  meta.defined = wanted && in.has(at);
  if (!meta.defined) return meta;
  return ContiguousMeta(in.tensor(at).dtype, in.tensor(at).sizes);
}

bool MaskAt(const InferInput& in, size_t at, size_t i) {
  const Argument::List& mask = in.args[at].list();
  return i < mask.size() && std::get<bool>(mask[i].v);
}

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd,
// weight, bias, output_mask)
absl::StatusOr<TensorMetas> InferLayerNormBackward(const InferInput& in) {
  const TensorMeta& x = in.tensor(1);
  RETURN_IF_ERROR(NormalizedRank(in, 1, 2).status());
  TensorMeta grad = ContiguousMeta(x.dtype, x.sizes);
  grad.defined = MaskAt(in, 7, 0);
  return TensorMetas{std::move(grad), OptionalLike(in, 5, MaskAt(in, 7, 1)),
                     OptionalLike(in, 6, MaskAt(in, 7, 2))};
}

// _fused_rms_norm(input, normalized_shape, weight, eps)
absl::StatusOr<TensorMetas> InferRmsNorm(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  ASSIGN_OR_RETURN(const size_t outer, NormalizedRank(in, 0, 1));
  DimVector statistics = x.sizes;
  for (size_t i = outer; i < statistics.size(); ++i) statistics[i] = 1;
  return TensorMetas{ContiguousMeta(x.dtype, x.sizes),
                     ContiguousMeta(IsHalf(x.dtype) ? DType::kFloat32 : x.dtype,
                                    std::move(statistics))};
}

// _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight,
// output_mask)
absl::StatusOr<TensorMetas> InferRmsNormBackward(const InferInput& in) {
  const TensorMeta& x = in.tensor(1);
  RETURN_IF_ERROR(NormalizedRank(in, 1, 2).status());
  TensorMeta grad = ContiguousMeta(x.dtype, x.sizes);
  grad.defined = MaskAt(in, 5, 0);
  return TensorMetas{std::move(grad), OptionalLike(in, 4, MaskAt(in, 5, 1))};
}

absl::Status CheckChannels(const InferInput& in, const TensorMeta& x,
                           std::initializer_list<size_t> params) {
  if (x.rank() < 2) return Malformed(absl::StrCat("input ", ToText(x)));
  for (const size_t i : params) {
    if (!in.is_tensor(i)) continue;
    const TensorMeta& p = in.tensor(i);
    if (p.rank() != 1 ||
        !in.shapes.DecideEq(p.sizes[0], x.sizes[1], "channels")) {
      return Malformed(absl::StrCat(in.schema.params[i].name, " ", ToText(p),
                                    " for ", ToText(x)));
    }
  }
  return absl::OkStatus();
}

TensorMeta PerChannel(const TensorMeta& x, DType dtype) {
  return ContiguousMeta(dtype, {x.sizes[1]});
}

// _native_batch_norm_legit_functional(input, weight, bias, running_mean,
// running_var, training, momentum, eps): the result, the saved statistics, and
// the running ones as they will be.
absl::StatusOr<TensorMetas> InferBatchNormFunctional(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  RETURN_IF_ERROR(CheckChannels(in, x, {1, 2, 3, 4}));
  const bool training = in.flag(5);
  const DType stats = StatisticsDType(in, x.dtype, 1);
  const TensorMeta saved =
      training ? PerChannel(x, stats) : ContiguousMeta(stats, {0});
  return TensorMetas{LikeInFormat(x, in.shapes), saved, saved, in.tensor(3),
                     in.tensor(4)};
}

// native_batch_norm(input, weight, bias, running_mean, running_var, training,
// momentum, eps), and _native_batch_norm_legit.
absl::StatusOr<TensorMetas> InferBatchNorm(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  RETURN_IF_ERROR(CheckChannels(in, x, {1, 2, 3, 4}));
  const DType stats = StatisticsDType(in, x.dtype, 1);
  const TensorMeta saved =
      in.flag(5) ? PerChannel(x, stats) : ContiguousMeta(stats, {0});
  return TensorMetas{LikeInFormat(x, in.shapes), saved, saved};
}

// _native_batch_norm_legit.no_stats(input, weight, bias, training, ...)
absl::StatusOr<TensorMetas> InferBatchNormNoStats(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  RETURN_IF_ERROR(CheckChannels(in, x, {1, 2}));
  const TensorMeta saved = PerChannel(x, StatisticsDType(in, x.dtype, 1));
  return TensorMetas{LikeInFormat(x, in.shapes), saved, saved};
}

// _native_batch_norm_legit_no_training(input, weight, bias, running_mean,
// running_var, momentum, eps)
absl::StatusOr<TensorMetas> InferBatchNormNoTraining(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  RETURN_IF_ERROR(CheckChannels(in, x, {1, 2, 3, 4}));
  const TensorMeta nothing =
      ContiguousMeta(StatisticsDType(in, x.dtype, 1), {0});
  return TensorMetas{LikeInFormat(x, in.shapes), nothing, nothing};
}

// native_batch_norm_backward(grad_out, input, weight, running_mean,
// running_var, save_mean, save_invstd, train, eps, output_mask)
absl::StatusOr<TensorMetas> InferBatchNormBackward(const InferInput& in) {
  const TensorMeta& x = in.tensor(1);
  RETURN_IF_ERROR(CheckChannels(in, x, {2, 3, 4}));
  if (!SameSizes(in.tensor(0).sizes, x.sizes, in.shapes)) {
    return Malformed("gradient and input differ in sizes");
  }
  TensorMeta grad = LikeInFormat(x, in.shapes);
  grad.defined = MaskAt(in, 9, 0);
  TensorMeta params = PerChannel(x, in.has(2) ? in.tensor(2).dtype : x.dtype);
  TensorMeta bias = params;
  params.defined = MaskAt(in, 9, 1);
  bias.defined = MaskAt(in, 9, 2);
  return TensorMetas{std::move(grad), std::move(params), std::move(bias)};
}

// native_group_norm(input, weight, bias, N, C, HxW, group, eps)
absl::StatusOr<TensorMetas> InferGroupNorm(const InferInput& in) {
  const TensorMeta& x = in.tensor(0);
  RETURN_IF_ERROR(CheckChannels(in, x, {1, 2}));
  const TensorMeta stats =
      ContiguousMeta(StatisticsDType(in, x.dtype, 1), {in.sym(3), in.sym(6)});
  const bool channels_last =
      in.device == DeviceType::kCpu && SuggestsChannelsLast(x, in.shapes);
  return TensorMetas{MetaInFormat(x.dtype, x.sizes, channels_last), stats,
                     stats};
}

// native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW,
// group, output_mask)
absl::StatusOr<TensorMetas> InferGroupNormBackward(const InferInput& in) {
  const TensorMeta& x = in.tensor(1);
  RETURN_IF_ERROR(CheckChannels(in, x, {4}));
  const bool channels_last =
      in.device == DeviceType::kCpu && SuggestsChannelsLast(x, in.shapes);
  // Tracing has the gradient of a half type with parameters in f32 in f32.
  const DType params_dtype = in.has(4) ? in.tensor(4).dtype : x.dtype;
  const DType dtype =
      in.device == DeviceType::kCpu && IsHalf(x.dtype) ? params_dtype : x.dtype;
  TensorMeta grad = MetaInFormat(dtype, x.sizes, channels_last);
  grad.defined = MaskAt(in, 9, 0);
  TensorMeta params = PerChannel(x, params_dtype);
  TensorMeta bias = params;
  params.defined = MaskAt(in, 9, 1);
  bias.defined = MaskAt(in, 9, 2);
  return TensorMetas{std::move(grad), std::move(params), std::move(bias)};
}

constexpr absl::string_view kBatchNorm =
    "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps) -> "
    "(Tensor, Tensor, Tensor)";

constexpr OpRow kRows[] = {
    {"aten.native_layer_norm.default",
     "(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, "
     "float eps) -> (Tensor, Tensor, Tensor)",
     InferLayerNorm, kDecompose},
    {"aten.native_layer_norm_backward.default",
     "(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, "
     "Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> "
     "(Tensor, Tensor, Tensor)",
     InferLayerNormBackward, kDecompose},
    {"aten._fused_rms_norm.default",
     "(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> "
     "(Tensor, Tensor)",
     InferRmsNorm, kDecompose},
    {"aten._fused_rms_norm_backward.default",
     "(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, "
     "Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
     InferRmsNormBackward, kDecompose},
    {"aten._native_batch_norm_legit_functional.default",
     "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
     "running_var, bool training, float momentum, float eps) -> (Tensor, "
     "Tensor, Tensor, Tensor, Tensor)",
     InferBatchNormFunctional, kDecompose},
    {"aten.native_batch_norm.default", kBatchNorm, InferBatchNorm, kDecompose},
    {"aten._native_batch_norm_legit.no_stats",
     "(Tensor input, Tensor? weight, Tensor? bias, bool training, float "
     "momentum, float eps) -> (Tensor, Tensor, Tensor)",
     InferBatchNormNoStats, kDecompose},
    {"aten._native_batch_norm_legit_no_training.default",
     "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
     "running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
     InferBatchNormNoTraining, kDecompose},
    {"aten.native_batch_norm_backward.default",
     "(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
     "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, "
     "float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     InferBatchNormBackward, kDecompose},
    {"aten.native_group_norm.default",
     "(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt "
     "HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
     InferGroupNorm, kDecompose},
    {"aten.native_group_norm_backward.default",
     "(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? "
     "weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) "
     "-> (Tensor, Tensor, Tensor)",
     InferGroupNormBackward, kDecompose},
};

}  // namespace

absl::Span<const OpRow> NormOps() { return kRows; }

}  // namespace kiln
