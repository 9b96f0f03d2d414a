// PyTorch's fused attention: as a step of its own where a kernel has it
// (graph/attention_choice.h), else in its mathematical form, two products and a
// softmax between, with the logarithm of each row's sum for the gradient. The flash
// and efficient operators of CUDA are steps or stay PyTorch's.

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/attention_choice.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// [B * H, rows, columns] of x[B, H, rows, columns].
ValueId Heads(Emitter& e, ValueId x) {
  const DimVector& s = e.meta(x).sizes;
  return e.Reshape(x, {s[0] * s[1], s[2], s[3]});
}

ValueId Unheads(Emitter& e, ValueId x, const DimVector& like) {
  const DimVector& s = e.meta(x).sizes;
  return e.View(x, {like[0], like[1], s[1], s[2]});
}

// A mask of bools says what may be seen; one of floats is added.
ValueId Masked(Emitter& e, ValueId scores, ValueId mask) {
  if (e.dtype(mask) == DType::kBool) {
    return e.Where(mask, scores, -INFINITY);
  }
  return e.Add(scores, e.Compute(mask));
}

// Row i sees columns 0 to i.
ValueId Causal(Emitter& e, ValueId scores) {
  const DimVector& s = e.meta(scores).sizes;
  const SymExpr rows = s[2], columns = s[3];
  const ValueId row = e.Unsqueeze(e.Iota(rows, DType::kInt64), 1);
  const ValueId seen = e.Le(e.Iota(columns, DType::kInt64), row);
  return e.Where(seen, scores, -INFINITY);
}

// How a fused operator is called, and what its products are computed in: the
// one for the CPU keeps f32 throughout, those for CUDA multiply half types.
struct Dialect {
  absl::string_view mask;  // "": it has none
  bool half_products;
  absl::string_view gradient = "grad_out";
};
constexpr Dialect kFlashForCpu = {"attn_mask", false};
constexpr Dialect kCudnn = {"attn_bias", true};
constexpr Dialect kFlash = {"", true};
constexpr Dialect kEfficient = {"attn_bias", true, "grad_out_"};

bool HasMask(const Decomposition& d, const Dialect& dialect) {
  return !dialect.mask.empty() && d.Has(dialect.mask);
}

// An operand of the products, as [B * H, rows, columns].
ValueId Factor(Decomposition& d, const Dialect& dialect,
               absl::string_view name) {
  return Heads(d.e, dialect.half_products ? d.Tensor(name) : d.Compute(name));
}

// An f32 value as an operand of the products.
ValueId Narrowed(Decomposition& d, const Dialect& dialect, ValueId v) {
  const DType dtype = d.e.dtype(d.Tensor("query"));
  return Heads(d.e, dialect.half_products ? d.e.ToDType(v, dtype) : v);
}

const SymExpr& WidthOf(Decomposition& d) {
  return d.e.meta(d.Tensor("query")).sizes.back();
}

// None: it changes with the heads' width.
std::optional<double> FixedScale(Decomposition& d) {
  if (d.Has("scale")) return d.Float("scale");
  if (!WidthOf(d).is_constant()) return std::nullopt;
  return 1 / std::sqrt(static_cast<double>(WidthOf(d).constant()));
}

Operand Scale(Decomposition& d) {
  if (const std::optional<double> fixed = FixedScale(d)) return *fixed;
  const ValueId width = d.e.Full({}, WidthOf(d), DType::kFloat64);
  return d.e.ToDType(d.e.Rsqrt(width), DType::kFloat32);
}

// q k^T * scale with its masks, in f32: [B, H, L, S].
ValueId Scores(Decomposition& d, const Dialect& dialect) {
  Emitter& e = d.e;
  const DimVector sizes = e.meta(d.Tensor("query")).sizes;
  const ValueId product = e.Bmm(Factor(d, dialect, "query"),
                                e.Transpose(Factor(d, dialect, "key"), 1, 2));
  ValueId scores = e.Mul(e.Compute(Unheads(e, product, sizes)), Scale(d));
  if (HasMask(d, dialect)) {
    scores = Masked(e, scores, d.Tensor(dialect.mask));
  }
  if (d.Bool("is_causal")) scores = Causal(e, scores);
  return scores;
}

// Why a call is not taken apart; empty when it is.
std::string Unfit(Decomposition& d) {
  const TensorMeta& query = d.e.meta(d.Tensor("query"));
  const TensorMeta& key = d.e.meta(d.Tensor("key"));
  const bool fits = query.rank() == 4 && key.rank() == 4;
  if (fits && d.e.graph().shapes.KnownEq(query.sizes[1], key.sizes[1]))
    return "";
  return absl::StrCat(fits ? "grouped heads" : "an operand is not of rank 4",
                      ", query ", ToText(query), ", key ", ToText(key));
}

// `weights` with dropout: each stays, scaled, where the number that `seed`
// draws for it is not below dropout_p. The backward draws the same again.
ValueId Dropped(Decomposition& d, ValueId weights,
                std::optional<ValueId> seed) {
  static const OpDef& kRandom = KnownOp("prims.inductor_random.default");
  Emitter& e = d.e;
  const double p = d.Float("dropout_p");
  if (!seed.has_value() || p == 0) return weights;
  const ValueId drawn = e.Call(kRandom, {ListArgument(e.meta(weights).sizes),
                                         *seed, std::string("rand")});
  const ValueId scaled = e.Mul(weights, p < 1 ? 1 / (1 - p) : 0.0);
  return e.Where(e.Ge(drawn, p), scaled, 0.0);
}

struct Attended {
  ValueId output, logsumexp;  // [B, H, L, V] and [B, H, L, 1]
};

Attended Attend(Decomposition& d, const Dialect& dialect,
                std::optional<ValueId> seed) {
  Emitter& e = d.e;
  const DimVector sizes = e.meta(d.Tensor("query")).sizes;
  const ValueId scores = Scores(d, dialect);
  DimVector rows = e.meta(scores).sizes;
  if (rows[3].Is(0)) {  // nobody sees anything
    rows[3] = 1;
    DimVector output = sizes;
    output[3] = e.meta(d.Tensor("value")).sizes[3];
    return {e.Full(output, 0.0, DType::kFloat32),
            e.Full(rows, 0.0, DType::kFloat32)};
  }
  const ValueId largest = e.Amax(scores, {3}, Keep::kYes);
  // A row that sees nothing has weights of 0 and, as eager mode has it, a
  // logsumexp of 0: its weights in the backward are 0, too.
  const ValueId blind = e.Eq(largest, -INFINITY);
  const ValueId top = e.Where(blind, 0.0, largest);
  const ValueId exp = e.Exp(e.Sub(scores, top));
  const ValueId sum = e.Where(blind, 1.0, e.Sum(exp, {3}, Keep::kYes));
  const ValueId p = Narrowed(d, dialect, Dropped(d, e.Div(exp, sum), seed));
  return {Unheads(e, e.Bmm(p, Factor(d, dialect, "value")), sizes),
          e.Add(top, e.Log(sum))};
}

AttentionForm FormOf(Decomposition& d, const Dialect& dialect) {
  const TensorMeta& q = d.e.meta(d.Tensor("query"));
  const TensorMeta& k = d.e.meta(d.Tensor("key"));
  const TensorMeta& v = d.e.meta(d.Tensor("value"));
  return {q.dtype,
          q.sizes[0],
          q.sizes[1],
          k.sizes[1],
          q.sizes[2],
          k.sizes[2],
          q.sizes[3],
          v.sizes[3],
          d.Float("dropout_p"),
          d.Bool("is_causal"),
          HasMask(d, dialect)};
}

AttentionChoice ChoiceOf(Decomposition& d, const Dialect& dialect) {
  for (const absl::string_view name : {"query", "key", "value"}) {
    if (d.e.meta(d.Tensor(name)).rank() != 4) {
      return {AttentionBy::kParts, "in parts, an operand is not of rank 4",
              "an operand is not of rank 4"};
    }
  }
  AttentionChoice choice =
      ChooseAttention(FormOf(d, dialect), d.e.graph().shapes, d.target());
  if (choice.by != AttentionBy::kParts && !FixedScale(d).has_value()) {
    return {AttentionBy::kParts, "in parts, a scale that changes",
            "a scale that changes"};
  }
  return choice;
}

// Whether the node becomes a step. One that can be taken apart and is leaves a line
// that says why.
bool IsWhole(Decomposition& d, const Dialect& dialect) {
  const AttentionChoice choice = ChoiceOf(d, dialect);
  const bool has_kernel = choice.by != AttentionBy::kParts;
  if (!Unfit(d).empty()) return has_kernel;
  std::string ground = choice.ground;
  if (has_kernel) {
    const std::string faster =
        FasterInParts(FormOf(d, dialect), d.e.graph().shapes, d.target());
    if (faster.empty()) return true;
    ground = absl::StrCat("in parts, ", faster);
  }
  d.e.graph().taken_apart.push_back(ExplainAttention(
      absl::StrCat(d.Has("grad_out") ? "attention_backward " : "attention ",
                   PacketName(d.op().name)),
      FormOf(d, dialect), ground, d.target()));
  return false;
}

// Strides of a result of `d` for a step that writes heads row by row.
Argument StridesOf(const Decomposition& d, size_t r) {
  const TensorMeta& due = d.result(r);
  const bool by_rows = due.strides.back().Is(1);
  return ListArgument(by_rows ? due.strides : ContiguousStrides(due.sizes));
}

// The mask as numbers that are added, [B, H, L, S].
Argument Bias(Decomposition& d, const Dialect& dialect) {
  Emitter& e = d.e;
  if (!HasMask(d, dialect)) return Argument();
  const DimVector& q = e.meta(d.Tensor("query")).sizes;
  const DimVector& k = e.meta(d.Tensor("key")).sizes;
  const DType dtype = e.dtype(d.Tensor("query"));
  ValueId mask = d.Tensor(dialect.mask);
  if (e.dtype(mask) == DType::kBool) {
    mask = e.Where(mask, e.Full({}, 0.0, dtype), -INFINITY);
  } else if (e.dtype(mask) != dtype) {
    mask = e.ToDType(mask, DType::kFloat32);
  }
  return e.Expand(mask, {q[0], q[1], q[2], k[2]});
}

// What both steps end with: causal, window, scale, dropout_p.
void AddNumbers(Decomposition& d, Emitter::Args& args) {
  args.push_back(std::string(d.Bool("is_causal") ? "top_left" : ""));
  args.push_back(int64_t{0});
  args.push_back(*FixedScale(d));
  args.push_back(d.Float("dropout_p"));
}

// What names the draw.
struct Draw {
  ValueId seed, offset;
};
constexpr Draw kNoDraw = {};

void AddDraw(Decomposition& d, const Draw& draw, Emitter::Args& args) {
  const bool draws = d.Float("dropout_p") > 0;
  args.push_back(draws ? Argument(draw.seed) : Argument());
  args.push_back(draws ? Argument(draw.offset) : Argument());
}

Attended AttendWhole(Decomposition& d, const Dialect& dialect,
                     const Draw& draw) {
  static const OpDef& kAttention = KnownOp("prims.attention.default");
  Emitter::Args args = {d.Tensor("query"), d.Tensor("key"), d.Tensor("value"),
                        Bias(d, dialect)};
  AddDraw(d, draw, args);
  AddNumbers(d, args);
  args.push_back(StridesOf(d, 0));
  const auto results = d.e.CallAll(kAttention, std::move(args));
  if (!d.e.status().ok()) return {ValueId{0}, ValueId{0}};
  return {results[0], d.e.Unsqueeze(results[1], 3)};
}

// `logsumexp`: [B, H, L].
Parts AttendBackwardWhole(Decomposition& d, const Dialect& dialect,
                          ValueId logsumexp, const Draw& draw) {
  static const OpDef& kBackward = KnownOp("prims.attention_backward.default");
  Emitter::Args args = {d.Tensor(dialect.gradient),
                        d.Tensor("query"),
                        d.Tensor("key"),
                        d.Tensor("value"),
                        d.Tensor("out"),
                        logsumexp,
                        Bias(d, dialect)};
  AddDraw(d, draw, args);
  AddNumbers(d, args);
  for (size_t r = 0; r < 3; ++r) args.push_back(StridesOf(d, r));
  const auto results = d.e.CallAll(kBackward, std::move(args));
  if (!d.e.status().ok()) return Parts(3);
  return {results[0], results[1], results[2]};
}

Parts FlashForCpu(Decomposition& d) {
  if (IsWhole(d, kFlashForCpu)) {
    const Attended a = AttendWhole(d, kFlashForCpu, kNoDraw);
    return {a.output, d.e.Squeeze(a.logsumexp, {3})};
  }
  if (!Unfit(d).empty()) return d.Unsupported(Unfit(d));
  if (d.Float("dropout_p") != 0) return d.Unsupported("dropout_p is not 0");
  const Attended a = Attend(d, kFlashForCpu, std::nullopt);
  return {a.output, d.e.Squeeze(a.logsumexp, {3})};
}

// The random state that is returned: the seed of this call's dropout. Without
// dropout it means nothing.
Draw NewDraw(Decomposition& d) {
  const ValueId zero = d.e.Full({}, 0, DType::kInt64);
  if (d.Float("dropout_p") == 0) return {zero, zero};
  return {d.e.Call("prims.inductor_seed.default", {DeviceType::kCpu}), zero};
}

Parts Cudnn(Decomposition& d) {
  const bool whole = IsWhole(d, kCudnn);
  if (!whole && !Unfit(d).empty()) return d.Unsupported(Unfit(d));
  const Draw draw = NewDraw(d);
  const Attended a =
      whole ? AttendWhole(d, kCudnn, draw) : Attend(d, kCudnn, draw.seed);
  Parts parts(d.num_results());
  parts[0] = a.output;
  parts[1] = a.logsumexp;
  parts[6] = draw.seed;
  parts[7] = draw.offset;
  return parts;
}

// P = exp(scores - logsumexp), dP = dropped(g v^T),
// dS = P * (dP - sum(g * out)). `logsumexp`: [B, H, L, 1].
Parts AttendBackward(Decomposition& d, const Dialect& dialect,
                     ValueId logsumexp, std::optional<ValueId> seed) {
  Emitter& e = d.e;
  const DimVector sizes = e.meta(d.Tensor("query")).sizes;
  const ValueId p = e.Exp(e.Sub(Scores(d, dialect), logsumexp));
  const ValueId delta =
      e.Sum(e.Mul(d.Compute("grad_out"), d.Compute("out")), {3}, Keep::kYes);
  const ValueId g = Factor(d, dialect, "grad_out");
  const ValueId v = Factor(d, dialect, "value");
  const ValueId dp = Dropped(
      d, e.Compute(Unheads(e, e.Bmm(g, e.Transpose(v, 1, 2)), sizes)), seed);
  const ValueId ds =
      Narrowed(d, dialect, e.Mul(e.Mul(p, e.Sub(dp, delta)), Scale(d)));
  const ValueId p3 = Narrowed(d, dialect, Dropped(d, p, seed));
  const ValueId q = Factor(d, dialect, "query");
  const ValueId k = Factor(d, dialect, "key");
  return {Unheads(e, e.Bmm(ds, k), sizes),
          Unheads(e, e.Bmm(e.Transpose(ds, 1, 2), q), sizes),
          Unheads(e, e.Bmm(e.Transpose(p3, 1, 2), g), sizes)};
}

Parts FlashForCpuBackward(Decomposition& d) {
  // Tracing has an f32 logsumexp where PyTorch's kernel then gives an f64 one.
  if (d.e.dtype(d.Tensor("query")) == DType::kFloat64 &&
      d.e.dtype(d.Tensor("logsumexp")) != DType::kFloat64) {
    return d.Unsupported("an f64 query whose logsumexp is traced as f32");
  }
  if (IsWhole(d, kFlashForCpu))
    return AttendBackwardWhole(d, kFlashForCpu, d.Tensor("logsumexp"), kNoDraw);
  if (!Unfit(d).empty()) return d.Unsupported(Unfit(d));
  return AttendBackward(d, kFlashForCpu,
                        d.e.Unsqueeze(d.Compute("logsumexp"), 3), std::nullopt);
}

Parts CudnnBackward(Decomposition& d) {
  if (IsWhole(d, kCudnn)) {
    return AttendBackwardWhole(
        d, kCudnn, d.e.Squeeze(d.Tensor("logsumexp"), {3}),
        {d.Tensor("philox_seed"), d.Tensor("philox_offset")});
  }
  if (!Unfit(d).empty()) return d.Unsupported(Unfit(d));
  return AttendBackward(d, kCudnn, d.Compute("logsumexp"),
                        d.Tensor("philox_seed"));
}

// Why PyTorch's kernel, which keeps no scores, computes a call; empty where a step
// does. Of forward and backward the same: the gradient of a bias is PyTorch's, which
// draws otherwise.
std::string LeftToPyTorch(Decomposition& d, const Dialect& dialect) {
  if (d.Float("dropout_p") != 0 && HasMask(d, dialect))
    return "dropout under attn_bias";
  return ChoiceOf(d, dialect).lack;
}

// Its causal mask ends with the last query and the last key.
std::string FlashLeftToPyTorch(Decomposition& d) {
  const SymExpr& queries = d.e.meta(d.Tensor("query")).sizes[2];
  const SymExpr& keys = d.e.meta(d.Tensor("key")).sizes[2];
  if (d.Bool("is_causal") &&
      !d.e.graph().shapes.DecideEq(queries, keys, "attention")) {
    return "a causal mask of other numbers of queries and keys";
  }
  return LeftToPyTorch(d, kFlash);
}

Parts Flash(Decomposition& d) {
  const std::string ground = FlashLeftToPyTorch(d);
  if (!ground.empty()) return d.Unsupported(ground);
  if (d.Bool("return_debug_mask")) return d.Unsupported("return_debug_mask");
  const Draw draw = NewDraw(d);
  const Attended a = AttendWhole(d, kFlash, draw);
  const Argument::List state = {d.e.Unsqueeze(draw.seed, 0),
                                d.e.Unsqueeze(draw.offset, 0)};
  Parts parts(d.num_results());
  parts[0] = a.output;
  parts[1] = d.e.Squeeze(a.logsumexp, {3});
  parts[6] = d.e.Call("aten.cat.default", {state, 0});
  parts[7] = draw.offset;
  parts[8] = d.e.Full({0}, 0.0, d.result(8).dtype);
  return parts;
}

Parts FlashBackward(Decomposition& d) {
  const std::string ground = FlashLeftToPyTorch(d);
  if (!ground.empty()) return d.Unsupported(ground);
  const Draw draw = {d.e.Select(d.Tensor("philox_seed"), 0, 0),
                     d.Tensor("philox_offset")};
  return AttendBackwardWhole(d, kFlash, d.Tensor("logsumexp"), draw);
}

// Rows that no query has are infinite, so that their weights would be 0.
ValueId WithRows(Emitter& e, ValueId logsumexp, const DimVector& due) {
  const DimVector& found = e.meta(logsumexp).sizes;
  if (found[2] == due[2]) return logsumexp;
  if (due[2].Is(0)) return e.Full(due, 0.0, DType::kFloat32);
  return e.Call("aten.constant_pad_nd.default",
                {logsumexp, ListArgument(DimVector{0, due[2] - found[2]}),
                 static_cast<double>(INFINITY)});
}

Parts Efficient(Decomposition& d) {
  const std::string ground = LeftToPyTorch(d, kEfficient);
  if (!ground.empty()) return d.Unsupported(ground);
  const Draw draw = NewDraw(d);
  const Attended a = AttendWhole(d, kEfficient, draw);
  const ValueId logsumexp = d.e.Squeeze(a.logsumexp, {3});
  return {a.output, WithRows(d.e, logsumexp, d.result(1).sizes), draw.seed,
          draw.offset};
}

Parts EfficientBackward(Decomposition& d) {
  const std::string ground = LeftToPyTorch(d, kEfficient);
  if (!ground.empty()) return d.Unsupported(ground);
  if (d.result(3).defined) return d.Unsupported("the gradient of attn_bias");
  const SymExpr rows = d.e.meta(d.Tensor("query")).sizes[2];
  const ValueId logsumexp = d.e.Slice(d.Tensor("logsumexp"), 2, 0, rows, 1);
  Parts parts =
      AttendBackwardWhole(d, kEfficient, logsumexp,
                          {d.Tensor("philox_seed"), d.Tensor("philox_offset")});
  parts.resize(d.num_results());
  return parts;
}

constexpr DecomposeRow kRows[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashForCpu},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     FlashForCpuBackward},
    {"aten._scaled_dot_product_cudnn_attention.default", Cudnn},
    {"aten._scaled_dot_product_cudnn_attention_backward.default",
     CudnnBackward},
    {"aten._scaled_dot_product_flash_attention.default", Flash},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     FlashBackward},
    {"aten._scaled_dot_product_efficient_attention.default", Efficient},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     EfficientBackward},
};

}  // namespace

absl::Span<const DecomposeRow> AttentionDecompositions() { return kRows; }

}  // namespace kiln
