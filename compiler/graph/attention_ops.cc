// Scaled dot-product attention, in the forms PyTorch's dispatch gives.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;

absl::Status CheckHeads(const TensorMeta& q, const TensorMeta& k,
                        const TensorMeta& v, ShapeEnv& shapes) {
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 &&
                    shapes.DecideEq(q.sizes[3], k.sizes[3], "attention") &&
                    shapes.DecideEq(k.sizes[2], v.sizes[2], "attention");
  if (fits) return absl::OkStatus();
  return Malformed(absl::StrCat("attention of ", ToText(q), ", ", ToText(k),
                                ", ", ToText(v)));
}

absl::Status CheckSharedHeads(const TensorMeta& q, const TensorMeta& k,
                              const TensorMeta& v, ShapeEnv& shapes) {
  RETURN_IF_ERROR(CheckHeads(q, k, v, shapes));
  if (shapes.DecideEq(k.sizes[1], v.sizes[1], "attention"))
    return absl::OkStatus();
  return Malformed(
      absl::StrCat("attention: heads of ", ToText(k), " and ", ToText(v)));
}

// [B, H, S, ...] that lies in memory as [B, S, H, ...].
TensorMeta HeadsInside(DType dtype, DimVector sizes) {
  std::swap(sizes[1], sizes[2]);
  TensorMeta meta = ContiguousMeta(dtype, std::move(sizes));
  std::swap(meta.sizes[1], meta.sizes[2]);
  std::swap(meta.strides[1], meta.strides[2]);
  return meta;
}

TensorMeta LeftOut() {
  TensorMeta meta;
  meta.defined = false;
  return meta;
}

// query, key, value, dropout_p, is_causal, *, attn_mask, scale
absl::StatusOr<TensorMetas> InferCpuAttention(const InferInput& in) {
  const TensorMeta& q = in.tensor(0);
  const TensorMeta& v = in.tensor(2);
  RETURN_IF_ERROR(CheckHeads(q, in.tensor(1), v, in.shapes));
  const DType sums = IsHalf(q.dtype) ? DType::kFloat32 : q.dtype;
  // PyTorch 2.11 lays the result out as the query, versions before as HeadsInside.
  const bool equal_widths =
      in.shapes.DecideEq(q.sizes[3], v.sizes[3], "attention");
  return TensorMetas{equal_widths
                         ? MetaLike(q, in.shapes)
                         : HeadsInside(q.dtype, {q.sizes[0], q.sizes[1],
                                                 q.sizes[2], v.sizes[3]}),
                     HeadsInside(sums, {q.sizes[0], q.sizes[1], q.sizes[2]})};
}

// grad_out, query, key, value, ...
absl::StatusOr<TensorMetas> InferGradientsHeadsInside(const InferInput& in) {
  TensorMetas metas;
  for (size_t i = 1; i <= 3; ++i) {
    const TensorMeta& x = in.tensor(i);
    if (x.rank() != 4) return Malformed("expected rank 4");
    metas.push_back(HeadsInside(x.dtype, x.sizes));
  }
  return metas;
}

// query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, ...
absl::StatusOr<TensorMetas> InferCudnnAttention(const InferInput& in) {
  const TensorMeta& q = in.tensor(0);
  const TensorMeta& v = in.tensor(2);
  RETURN_IF_ERROR(CheckHeads(q, in.tensor(1), v, in.shapes));
  const DimVector out = {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]};
  // The query's order of dimensions is kept.
  TensorMeta result;
  result.dtype = q.dtype;
  result.sizes = out;
  DimVector by_order = q.strides;
  const bool heads_inside =
      in.shapes.DecideLt(by_order[1], by_order[2], "attention");
  result =
      heads_inside ? HeadsInside(q.dtype, out) : ContiguousMeta(q.dtype, out);
  TensorMeta sums =
      ContiguousMeta(DType::kFloat32, {q.sizes[0], q.sizes[1], q.sizes[2], 1});
  const TensorMeta seed = ContiguousMeta(DType::kInt64, {});
  return TensorMetas{std::move(result), std::move(sums), LeftOut(), LeftOut(),
                     LeftOut(),         LeftOut(),       seed,      seed,
                     LeftOut()};
}

// grad_out, query, key, value, ...: gradients laid out as what they are of.
absl::StatusOr<TensorMetas> InferGradientsAlike(const InferInput& in) {
  TensorMetas metas;
  for (size_t i = 1; i <= 3; ++i) {
    const TensorMeta& x = in.tensor(i);
    if (x.rank() != 4) return Malformed("expected rank 4");
    metas.push_back(MetaLike(x, in.shapes));
  }
  return metas;
}

// query, key, value, dropout_p, is_causal, return_debug_mask, *, scale. The state of
// dropout is unsigned in PyTorch; here it is the same bits.
absl::StatusOr<TensorMetas> InferFlashAttention(const InferInput& in) {
  const TensorMeta& q = in.tensor(0);
  const TensorMeta& v = in.tensor(2);
  RETURN_IF_ERROR(CheckSharedHeads(q, in.tensor(1), v, in.shapes));
  if (!in.shapes.DecideEq(q.sizes[3], v.sizes[3], "attention"))
    return Malformed(
        absl::StrCat("flash attention of ", ToText(q), " and ", ToText(v)));
  TensorMeta debug_mask = in.flag(5) ? LeftOut() : ContiguousMeta(q.dtype, {0});
  return TensorMetas{
      MetaLike(q, in.shapes),
      ContiguousMeta(DType::kFloat32, {q.sizes[0], q.sizes[1], q.sizes[2]}),
      LeftOut(),
      LeftOut(),
      LeftOut(),
      LeftOut(),
      ContiguousMeta(DType::kInt64, {2}),
      ContiguousMeta(DType::kInt64, {}),
      std::move(debug_mask)};
}

// Rows of the logarithms that the efficient operator returns come in these.
constexpr int64_t kLogsumexpRows = 32;

// query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, *, scale
absl::StatusOr<TensorMetas> InferEfficientAttention(const InferInput& in) {
  const TensorMeta& q = in.tensor(0);
  const TensorMeta& v = in.tensor(2);
  RETURN_IF_ERROR(CheckSharedHeads(q, in.tensor(1), v, in.shapes));
  const SymExpr rows =
      in.flag(4) ? CeilDiv(q.sizes[2], kLogsumexpRows) * kLogsumexpRows
                 : SymExpr(0);
  const TensorMeta seed = ContiguousMeta(DType::kInt64, {});
  return TensorMetas{
      HeadsInside(q.dtype, {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]}),
      ContiguousMeta(DType::kFloat32, {q.sizes[0], q.sizes[1], rows}), seed,
      seed};
}

// A gradient of the bias has rows of whole 32 bytes, which is what is returned of
// them.
constexpr int64_t kBiasColumns = 16;

// grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed,
// philox_offset, dropout_p, grad_input_mask, is_causal, *, scale
absl::StatusOr<TensorMetas> InferEfficientAttentionBackward(
    const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMetas metas, InferGradientsHeadsInside(in));
  metas.push_back(LeftOut());
  const Argument::List& mask = in.args[10].list();
  if (mask.size() != 4)
    return Malformed("grad_input_mask: expected four flags");
  if (!in.has(4) || !std::get<bool>(mask[3].v)) return metas;
  TensorMeta bias = in.tensor(4);
  DimVector rows = bias.sizes;
  rows.back() = CeilDiv(rows.back(), kBiasColumns) * kBiasColumns;
  bias.strides = ContiguousStrides(rows);
  bias.offset = 0;
  metas.back() = std::move(bias);
  return metas;
}

// prims.attention(query, key, value, bias, seed, offset, causal, window, scale,
// dropout_p, strides): a step of its own (compiler/loop/attention.h), its first
// result laid out by `strides`.
absl::StatusOr<TensorMetas> InferAttention(const InferInput& in) {
  const TensorMeta& q = in.tensor(0);
  const TensorMeta& v = in.tensor(2);
  RETURN_IF_ERROR(CheckSharedHeads(q, in.tensor(1), v, in.shapes));
  TensorMeta out;
  out.dtype = q.dtype;
  out.sizes = {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]};
  out.strides = in.ints(10);
  if (out.strides.size() != out.sizes.size())
    return Malformed("attention: expected four strides");
  return TensorMetas{
      std::move(out),
      ContiguousMeta(DType::kFloat32, {q.sizes[0], q.sizes[1], q.sizes[2]})};
}

// prims.attention_backward(grad, query, key, value, out, logsumexp, bias, seed,
// offset, causal, window, scale, dropout_p, query_strides, key_strides,
// value_strides)
absl::StatusOr<TensorMetas> InferAttentionBackward(const InferInput& in) {
  RETURN_IF_ERROR(
      CheckSharedHeads(in.tensor(1), in.tensor(2), in.tensor(3), in.shapes));
  TensorMetas metas;
  for (size_t i = 1; i <= 3; ++i) {
    TensorMeta meta;
    meta.dtype = in.tensor(i).dtype;
    meta.sizes = in.tensor(i).sizes;
    meta.strides = in.ints(12 + i);
    if (meta.strides.size() != meta.sizes.size())
      return Malformed("attention_backward: expected four strides");
    metas.push_back(std::move(meta));
  }
  return metas;
}

constexpr OpRow kRows[] = {
    {"prims.attention.default",
     "(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? seed, "
     "Tensor? offset, str causal, int window, float scale, float dropout_p, "
     "SymInt[] strides) -> (Tensor out, Tensor logsumexp)",
     InferAttention, Handling::kStep},
    {"prims.attention_backward.default",
     "(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor out, Tensor "
     "logsumexp, Tensor? bias, Tensor? seed, Tensor? offset, str causal, int "
     "window, float scale, float dropout_p, SymInt[] query_strides, SymInt[] "
     "key_strides, SymInt[] value_strides) -> (Tensor, Tensor, Tensor)",
     InferAttentionBackward, Handling::kStep},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default",
     "(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool "
     "is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> "
     "(Tensor output, Tensor logsumexp)",
     InferCpuAttention, kDecompose},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     "(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
     "Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? "
     "attn_mask=None, float? scale=None) -> (Tensor, Tensor, Tensor)",
     InferGradientsHeadsInside, kDecompose},
    {"aten._scaled_dot_product_cudnn_attention.default",
     "(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
     "compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, bool "
     "return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor "
     "logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt "
     "max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_mask)",
     InferCudnnAttention, kDecompose},
    {"aten._scaled_dot_product_cudnn_attention_backward.default",
     "(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
     "Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, Tensor? "
     "attn_bias, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q, SymInt "
     "max_k, float dropout_p, bool is_causal, *, float? scale=None) -> "
     "(Tensor, Tensor, Tensor)",
     InferGradientsAlike, kDecompose},
    {"aten._scaled_dot_product_flash_attention.default",
     "(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool "
     "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> "
     "(Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, "
     "SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor "
     "debug_attn_mask)",
     InferFlashAttention, kDecompose},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
     "Tensor logsumexp, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q, "
     "SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, "
     "Tensor philox_offset, *, float? scale=None) -> (Tensor grad_query, "
     "Tensor grad_key, Tensor grad_value)",
     InferGradientsAlike, kDecompose},
    {"aten._scaled_dot_product_efficient_attention.default",
     "(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
     "compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, float? "
     "scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, "
     "Tensor philox_offset)",
     InferEfficientAttention, kDecompose},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     "(Tensor grad_out_, Tensor query, Tensor key, Tensor value, Tensor? "
     "attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor "
     "philox_offset, float dropout_p, bool[4] grad_input_mask, bool "
     "is_causal=False, *, float? scale=None) -> (Tensor, Tensor, Tensor, "
     "Tensor)",
     InferEfficientAttentionBackward, kDecompose},
};

}  // namespace

absl::Span<const OpRow> AttentionOps() { return kRows; }

}  // namespace kiln
