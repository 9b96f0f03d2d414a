#include "compiler/graph/attention_choice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// Source: what runtime/extern_kernels/extern_kernel.h says of attention, and the
// chip on which it was compared, Hopper.
constexpr int kComparedCapability = 90;
// Tensor cores that add up in f32, and copies to shared memory that go on by
// themselves. Source: PTX ISA, "mma.sync", "cp.async".
constexpr int kOldestOfOwn = 80;
constexpr int64_t kWidthStep = 8;
constexpr int64_t kWidest = 256;
// Where our kernels take less time than cuDNN's, on an H200: bench/records/h200_contractions.md,
// "Short rows and narrow heads". Up to so many queries and keys, which one block has, 0.41
// to 1.05 of it forward and 0.5 to 0.9 with the gradients, for heads up to 128; with more
// queries and heads up to 32, for which cuDNN computes 64 columns, 0.7 to 0.95.
constexpr int64_t kFewRows = 64;
constexpr int64_t kWidestOfFew = 128;
constexpr int64_t kNarrow = 32;
constexpr absl::string_view kOrigin = "attention";
// 128 KiB, which a core's own cache holds. With fewer scores in all, a call of sgemm for
// each head takes longer than its work, and products of all heads are up to 1.4 times as
// fast. With a causal mask they are not: blocks leave out half. Measured:
// bench/records/cpu_kernels.md, "Attention in blocks".
constexpr int64_t kFewScores = int64_t{1} << 15;

AttentionChoice InParts(std::string because) {
  std::string ground = absl::StrCat("in parts, ", because);
  return {AttentionBy::kParts, std::move(ground), std::move(because)};
}

AttentionChoice Own(std::string because) {
  return {AttentionBy::kOwn, absl::StrCat("own flash, ", because)};
}

bool IsWidth(const SymExpr& width) {
  return width.is_constant() && width.constant() > 0 &&
         width.constant() <= kWidest && width.constant() % kWidthStep == 0;
}

AttentionChoice OnCpu(const AttentionForm& form) {
  if (form.dtype != DType::kFloat32 && !IsHalf(form.dtype))
    return InParts(absl::StrCat("no kernel has ", ShortName(form.dtype)));
  if (form.dropout > 0) return InParts("no kernel for the CPU has dropout");
  return {AttentionBy::kLibrary, "own blocks"};
}

// Whose kernel is faster where cuDNN has one. Decided with guards, so that the backward
// chooses what its forward chose.
AttentionChoice Faster(const AttentionForm& form, ShapeEnv& shapes) {
  const AttentionChoice cudnn = {AttentionBy::kLibrary, "cuDNN"};
  const int64_t widest =
      std::max(form.width.constant(), form.value_width.constant());
  const bool narrow = widest <= kNarrow;
  // A bias may leave a row nothing to see: that is what cuDNN makes of it, as in eager mode.
  if (form.has_bias || widest > kWidestOfFew ||
      (!narrow && shapes.KnownLt(kFewRows, form.queries))) {
    return cudnn;
  }
  const bool few_keys = shapes.DecideLt(form.keys, kFewRows + 1, kOrigin);
  if (!few_keys && !narrow) return cudnn;
  const bool few_queries = shapes.DecideLt(form.queries, kFewRows + 1, kOrigin);
  AttentionChoice own = cudnn;
  if (few_queries && few_keys) own = Own("few queries and keys");
  if (!few_queries && narrow) own = Own("narrow heads");
  own.by_sizes = own.by == AttentionBy::kOwn;
  return own;
}

AttentionChoice OnCuda(const AttentionForm& form, ShapeEnv& shapes,
                       const Target& target) {
  if (!IsHalf(form.dtype))
    return InParts(absl::StrCat("no kernel has ", ShortName(form.dtype)));
  if (target.compute_capability < kOldestOfOwn)
    return InParts(absl::StrCat("no kernel for ", target.name));
  for (const SymExpr& width : {form.width, form.value_width}) {
    if (!IsWidth(width)) {
      return InParts(absl::StrCat("no kernel has heads of ", width.ToString()));
    }
  }
  for (const SymExpr& size :
       {form.batch, form.heads, form.queries, form.keys}) {
    if (!shapes.DecideLt(0, size, kOrigin)) return InParts("a size of 0");
  }
  if (target.compute_capability != kComparedCapability)
    return Own(absl::StrCat("cuDNN is not compared on ", target.name));
  if (!shapes.DecideLt(1, form.keys, kOrigin) &&
      !shapes.DecideLt(1, form.queries, kOrigin)) {
    return Own("cuDNN has no gradient of one query to one key");
  }
  return Faster(form, shapes);
}

}  // namespace

AttentionChoice ChooseAttention(const AttentionForm& form, ShapeEnv& shapes,
                                const Target& target) {
  if (form.dropout >= 1) return InParts("all weights are dropped");
  if (target.kind == TargetKind::kCuda) return OnCuda(form, shapes, target);
  return OnCpu(form);
}

std::string FasterInParts(const AttentionForm& form, ShapeEnv& shapes,
                          const Target& target) {
  if (target.kind == TargetKind::kCuda || form.causal) return "";
  const SymExpr scores = form.batch * form.heads * form.queries * form.keys;
  return shapes.DecideLt(scores, kFewScores, kOrigin) ? "few scores" : "";
}

std::string ExplainAttention(absl::string_view name, const AttentionForm& form,
                             absl::string_view ground, const Target& target) {
  return absl::StrCat(
      name, " [b ", form.batch.ToString(), ", h ", form.heads.ToString(),
      ", x ", form.key_heads.ToString(), ", m ", form.queries.ToString(),
      ", n ", form.keys.ToString(), ", e ", form.width.ToString(), ", v ",
      form.value_width.ToString(), "] ", ShortName(form.dtype), ": ", ground,
      ": heads of ", form.width.ToString(), " on ", target.name);
}

}  // namespace kiln
